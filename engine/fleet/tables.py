"""The table by which one of the fleet's controllers acts."""

from sqlalchemy import BigInteger
from sqlmodel import Field

from core.sql.database import TableBase


class FleetLease(TableBase, table=True):
    """The lease by which one controller acts and others wait: `holder` has it until `until_ms`."""

    name: str = Field(primary_key=True)
    holder: str
    until_ms: int = Field(sa_type=BigInteger)
