"""Files of pools: what each pool should be, as YAML, with the line of everything that is said. Pure."""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import yaml

from billing.operations.pool_facts import PoolFacts, PoolStateName

NAMED = "pool"
WHOLE = re.compile(r"\d{1,15}")
TOP = "pools"


class PoolFileError(Exception):
    """A file that cannot be taken. `faults`: a line of the file and what is wrong there, in order."""

    def __init__(self, faults: Sequence[tuple[int, str]]) -> None:
        super().__init__("; ".join(told for _, told in faults))
        self.faults = faults


@dataclass(frozen=True)
class FilePool:
    """One pool of a file: the facts that it names, in the form of PoolFacts, and the line of each."""

    pool: str
    facts: Mapping[str, Any]
    lines: Mapping[str, int]

    def line(self, field: str | None) -> int:
        """The line of a field, else of the pool."""
        return self.lines.get(field or "", self.lines[NAMED])


class _Faults:
    def __init__(self) -> None:
        self.faults = list[tuple[int, str]]()

    def add(self, node: yaml.Node, told: str) -> None:
        self.faults.append((_line(node), told))


def pools_of(text: str) -> list[FilePool]:
    """The pools of a file. Raises PoolFileError with all that is wrong."""
    faults = _Faults()
    try:
        root = cast(yaml.Node | None, cast(Any, yaml).compose(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise PoolFileError([(line, f"this is no YAML: {error.problem}")]) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise PoolFileError([(1, "this is no YAML")]) from error
    found = [_pool(node, faults) for node in _entries(root, faults)]
    pools = [each for each in found if each is not None]
    _check_alone(pools, faults)
    if faults.faults:
        raise PoolFileError(sorted(faults.faults))
    return pools


def _entries(root: yaml.Node | None, faults: _Faults) -> list[yaml.Node]:
    """The nodes of pools."""
    if root is None:
        raise PoolFileError([(1, f"there is no `{TOP}:` with a list of pools")])
    if not isinstance(root, yaml.MappingNode):
        raise PoolFileError([(_line(root), f"a file of pools begins with `{TOP}:`")])
    top = {name: node for name, _, node in _pairs(root, (TOP,), "the file", faults)}
    listed = top.get(TOP)
    if isinstance(listed, yaml.SequenceNode):
        return listed.value
    if not faults.faults:
        faults.add(listed or root, f"`{TOP}:` is a list: `- pool: NAME` begins each")
    return []


def _pool(node: yaml.Node, faults: _Faults) -> FilePool | None:
    if not isinstance(node, yaml.MappingNode):
        faults.add(node, "a pool begins with `- pool: NAME`")
        return None
    facts, lines, name = dict[str, Any](), dict[str, int](), ""
    for field, key, value in _pairs(node, (NAMED, *READERS), "a pool", faults):
        lines[field] = _line(key)
        try:
            read = _text(value) if field == NAMED else READERS[field](value)
        except ValueError as error:
            faults.add(value, f"{field}: {error}")
            continue
        if field == NAMED:
            name = read
        else:
            facts[field] = read
    if NAMED not in lines:
        faults.add(node, "this pool has no name: `pool: NAME`")
        return None
    return FilePool(name, facts, lines)


def _pairs(
    node: yaml.MappingNode, known: Sequence[str], whose: str, faults: _Faults
) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    """Fields of a mapping that there are, each once."""
    seen = set[str]()
    for key, value in node.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else ""
        if name in seen:
            faults.add(key, f"{name} is there twice")
        elif name in known:
            seen.add(name)
            yield name, key, value
        else:
            near = difflib.get_close_matches(name, known, 1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            faults.add(key, f"{whose} has no field {name!r}: {advice}")


def _check_alone(pools: Sequence[FilePool], faults: _Faults) -> None:
    first = dict[str, int]()
    for each in pools:
        at = first.setdefault(each.pool, each.line(None))
        if at != each.line(None):
            faults.faults.append((each.line(None), f"the pool {each.pool!r} is in line {at} already"))


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _is_null(node: yaml.Node) -> bool:
    return node.tag == "tag:yaml.org,2002:null"


def _text(node: yaml.Node) -> str:
    """The text as it is written: `4` and `no` are texts too."""
    if not isinstance(node, yaml.ScalarNode) or _is_null(node) or not node.value:
        raise ValueError("this is a text")
    return node.value


def _text_or_none(node: yaml.Node) -> str | None:
    return None if _is_null(node) else _text(node)


def _whole(node: yaml.Node) -> int:
    if not isinstance(node, yaml.ScalarNode) or not WHOLE.fullmatch(node.value):
        raise ValueError("this is a whole number, like 2")
    return int(node.value)


def _labels(node: yaml.Node) -> dict[str, str]:
    if not isinstance(node, yaml.MappingNode):
        raise ValueError("labels are NAME: VALUE, like {zone: eu}")
    return {_text(key): _text(value) for key, value in node.value}


def _texts(node: yaml.Node) -> list[str]:
    if not isinstance(node, yaml.SequenceNode):
        raise ValueError("this is a list of tenants, like [acme]")
    return sorted({_text(each) for each in node.value})


def _state(node: yaml.Node) -> PoolStateName:
    states = [each.value for each in PoolStateName]
    if (text := _text(node)) not in states:
        raise ValueError(f"this is {' or '.join(states)}")
    return PoolStateName(text)


READERS: Mapping[str, Callable[[yaml.Node], Any]] = {
    "model": _text,
    "version": _text,
    "workers": _whole,
    "labels": _labels,
    "tenant": _text_or_none,
    "project": _text_or_none,
    "let_in": _texts,
    "reserve_interactive_tokens": _whole,
    "reserve_standard_tokens": _whole,
    "state": _state,
}


def written(pools: Sequence[PoolFacts]) -> str:
    """The file that says what these pools should be; without what is nothing."""
    rows = [{NAMED: pool.pool, **_said(facts_in(pool))} for pool in pools]
    return yaml.safe_dump({TOP: rows}, sort_keys=False, allow_unicode=True, width=100)


def facts_in(pool: PoolFacts) -> dict[str, Any]:
    """What a file can say of a pool; of its version the one that is under way."""
    facts = {name: getattr(pool, name) for name in READERS}
    return facts | {"version": pool.next_version or pool.version}


def _said(facts: Mapping[str, Any]) -> dict[str, Any]:
    plain = {
        name: value.value if isinstance(value, PoolStateName) else value for name, value in facts.items()
    }
    always = ("model", "version", "workers")
    kept = {name: value for name, value in plain.items() if value or name in always}
    return {name: value for name, value in kept.items() if (name, value) != ("state", "active")}
