"""Whether the database holds a process' role to the rows that it may write (core/access/row_rules.py)."""

from sqlalchemy import text

from core.access.database_roles import role_of, triggers_of
from core.access.processes import ProcessKind
from core.access.row_rules import BODY
from core.errors import StartupError
from core.sql.database import Database

_WHO = text("SELECT current_user")
_STANDING = text(
    "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
    "JOIN pg_proc ON pg_proc.oid = tgfoid WHERE NOT tgisinternal AND pg_table_is_visible(tgrelid) "
    "AND tgenabled = 'O' AND prosrc = :body AND pg_has_role(proowner, relowner, 'MEMBER')"
)


async def require_rows(db: Database, process: ProcessKind) -> None:
    """Raise StartupError where this process comes in as its own role, and that may write rows that it does
    not declare, as where `parley db roles` was not run after an upgrade. SQLite knows no roles."""
    if db.dialect == "sqlite":
        return
    async with db.engine.connect() as connection:
        if (await connection.execute(_WHO)).scalar_one() != role_of(process):
            return
        standing = set((await connection.execute(_STANDING, {"body": BODY})).scalars())
    if open_tables := sorted({each.table for each in triggers_of(process) if each.name not in standing}):
        raise StartupError(
            f"the role {role_of(process)} may write rows of others in {', '.join(open_tables)}: run "
            "`parley db roles --apply` as the tables' owner, as after each `parley db migrate`"
        )
