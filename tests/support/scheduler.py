"""How xdist gives groups of tests to workers."""

from typing import Any

from xdist.scheduler import LoadScopeScheduling

from tests.support.groups import group_of, seconds_of_files, started_first


class GroupScheduling(LoadScopeScheduling):
    """A worker gets whole groups, and of those that wait the one that lasts longest."""

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        self._seconds = seconds_of_files()

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        self.workqueue.move_to_end(started_first(list(self.workqueue), self._seconds)[0], last=False)
        super()._assign_work_unit(node)
