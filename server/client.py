"""The Python client by its old name. It goes with version 0.2: import from parley_client."""

import warnings

from parley_client import Answer as Answer
from parley_client import Client as Client
from parley_client import Counters as Counters
from parley_client import Ended as Ended
from parley_client import Event as Event
from parley_client import ProtocolError as ProtocolError
from parley_client import Reset as Reset
from parley_client import SignedOut as SignedOut
from parley_client import Standing as Standing
from parley_client import Status as Status
from parley_client import Text as Text
from parley_client import TextTakenBack as TextTakenBack
from parley_client import Trace as Trace
from parley_client import Usage as Usage

warnings.warn(
    "server.client is parley_client now: from parley_client import Client", DeprecationWarning, stacklevel=2
)
