"""Number types of settings with their bounds. Pure.

The upper ends are far above any useful value: they refuse typing errors, and values that overflow a clock or
counter.
"""

from typing import Annotated

from pydantic import Field

NUMBER_MAX = 10**12
SECONDS_MAX = 10 * 366 * 24 * 3600
PORT_MAX = 65_535

Port = Annotated[int, Field(ge=0, le=PORT_MAX)]
Some = Annotated[int, Field(ge=1, le=NUMBER_MAX)]
SomeOrNone = Annotated[int, Field(ge=0, le=NUMBER_MAX)]  # 0: none, no limit, or chosen by the process
Milliseconds = Annotated[int, Field(ge=1, le=SECONDS_MAX * 1000)]
MillisecondsOrNone = Annotated[int, Field(ge=0, le=SECONDS_MAX * 1000)]
Seconds = Annotated[int, Field(ge=1, le=SECONDS_MAX)]
SecondsOrNone = Annotated[int, Field(ge=0, le=SECONDS_MAX)]
Pause = Annotated[float, Field(gt=0, le=SECONDS_MAX)]  # in seconds
PauseOrNone = Annotated[float, Field(ge=0, le=SECONDS_MAX)]
Rate = Annotated[float, Field(ge=0, le=NUMBER_MAX)]  # 0: no limit
Weight = Annotated[float, Field(ge=0, le=NUMBER_MAX)]
Fraction = Annotated[float, Field(gt=0, le=1)]
