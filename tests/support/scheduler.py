"""How xdist gives groups of tests to workers."""

from typing import Any

from xdist.scheduler import LoadScopeScheduling

from tests.support.groups import group_of, turn_of

AHEAD = 2  # a worker with so few tests left gets more


class GroupScheduling(LoadScopeScheduling):
    """A worker gets whole groups, and of those that wait the one that lasts longest."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _reschedule(self, node: Any) -> None:
        """A worker runs a test once it knows of the next: it gets groups until it does, or is told that there
        are no more. xdist's own gives one group, and a worker that replaces another waits for ever where that
        has a single test left."""
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) <= AHEAD:
            if not self.workqueue:
                node.shutdown()
                return
            self._assign_work_unit(node)

    def remove_node(self, node: Any) -> str | None:
        """The test during which a worker died has failed; the rest of its groups is for others. xdist's own
        gives them that test, too."""
        crashed = None
        for group, tests in self.assigned_work.pop(node).items():
            left = [test for test, is_over in tests.items() if not is_over]
            if left and crashed is None:
                crashed = left.pop(0)
                tests[crashed] = True
            if left:
                self.workqueue[group] = tests
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def _assign_work_unit(self, node: Any) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=turn_of), last=False)
        super()._assign_work_unit(node)
