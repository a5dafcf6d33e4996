"""Tests. Those of a product package are in the folder of its name; tests/support is what they share."""

import os
import sys

# What was compiled once is kept, here and in all processes that tests start: some systems turn that off, and
# then each worker rewrites the asserts of all files, and each gateway compiles all of Parley again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
