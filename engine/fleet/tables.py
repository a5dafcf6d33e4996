"""Tables of the fleet's controller: which of them acts, and what it sees of each pool."""

from sqlalchemy import BigInteger
from sqlmodel import Field

from core.sql.database import TableBase


class FleetLease(TableBase, table=True):
    """The lease by which one controller acts and others wait: `holder` has it until `until_ms`."""

    name: str = Field(primary_key=True)
    holder: str
    until_ms: int = Field(sa_type=BigInteger)


class PoolState(TableBase, table=True):
    """What the controller saw of a pool in its last round, and did: `workers` of generation `generation` are
    wanted, `running` run, start or drain on `node`, `ready` are registered on any node. `step`: see StepKind;
    `why`: the reason where the pool is not as it should be."""

    pool: str = Field(primary_key=True)
    generation: int = Field(sa_type=BigInteger)
    workers: int = Field(sa_type=BigInteger)
    running: int = Field(sa_type=BigInteger)
    ready: int = Field(sa_type=BigInteger)
    step: str
    why: str
    node: str
    controller: str
    observed_ms: int = Field(sa_type=BigInteger)
