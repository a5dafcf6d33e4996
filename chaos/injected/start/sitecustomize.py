"""Python runs this as each process of a test begins (chaos/injected/switches.py)."""

from chaos.injected.switches import install

install()
