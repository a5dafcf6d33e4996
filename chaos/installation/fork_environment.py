"""How a fork replaces a fresh interpreter: streams, environment, command line, and how it ends."""

import atexit
import ctypes
import io
import os
import resource
import runpy
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

# Where /proc/self/stat says, counted from its third field on, that what was given at the start lies.
ARGUMENTS, ENVIRONMENT = (45, 46), (47, 48)
INTERRUPTED = -signal.SIGINT


def take(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Be what this command line and environment say, also in /proc, where others look a process up."""
    os.environ.clear()
    os.environ.update(environment)
    sys.orig_argv[:] = argv
    told = [f"{name}={value}" for name, value in environment.items()]
    with open("/proc/self/stat", "rb") as file:
        stat = file.read().rpartition(b")")[2].split()
    for (first, last), strings in ((ARGUMENTS, argv), (ENVIRONMENT, told)):
        begin, end = int(stat[first]), int(stat[last])
        packed = b"".join(os.fsencode(each) + b"\0" for each in strings)[: end - begin - 1]
        ctypes.memmove(begin, packed.ljust(end - begin, b"\0"), end - begin)


def take_streams(fds: Sequence[int]) -> None:
    """Standard input, output and error."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    for fd in fds:
        os.close(fd)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    for name, number, errors in (("stdout", 1, "strict"), ("stderr", 2, "backslashreplace")):
        by_line = number == 2 or os.isatty(number)
        raw = open(number, "wb", closefd=False)  # noqa: SIM115
        stream = io.TextIOWrapper(raw, encoding="utf-8", errors=errors, line_buffering=by_line)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def close_as_exec_does() -> None:
    """The descriptors that a new program does not get."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that listed them
            if not os.get_inheritable(int(name)):
                os.close(int(name))


def limit_files(most: int) -> None:
    """As many open files as who asked for it may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, hard), hard))


def program(argv: Sequence[str]) -> None:
    """Run `python -m module …` as the main module."""
    _, _, module, *arguments = argv
    sys.argv[:] = [module, *arguments]
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")  # it was imported, on purpose
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def run(work: Callable[[], None]) -> NoReturn:
    """To its end, as an interpreter ends."""
    code = 1
    try:
        code = _code_of(work)
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                code = code or 120
        if code == INTERRUPTED:  # its parent sees that a signal ended it
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(code)


def _code_of(work: Callable[[], None]) -> int:
    try:
        work()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return (ended.code or 0) & 0xFF
        print(ended.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        return INTERRUPTED
    except BaseException as error:  # noqa: BLE001  (what nobody caught ends an interpreter, too)
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0
