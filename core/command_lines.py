"""Lines of `parley --help`, one for each registered command, so that it imports none of them.

The names are those of the entry points `parley.commands` in pyproject.toml. Each line is the first sentence
of the command's own help (tests/core/test_command_lines.py compares).
"""

COMMAND_LINES = {
    "up": "Start the whole platform on this machine and stay until Ctrl-C.",
    "demo": "Examples to look at, for an installation that is only tried out.",
    "overview": "Say whether all is well, what would help, and what runs, waits and happened.",
    "redis": "Users, passwords and rules that Redis needs.",
    "secrets": "Secrets that are made of the signing secret, for processes that do without it.",
    "gateway": "Run a gateway: the WebSocket, the HTTP routes and the chat page.",
    "chat": "Chat in the terminal; without options, with the platform that `parley up` started here.",
    "worker": "Run one vLLM engine that takes work from the pool.",
    "supervisor": "Keep this node's workers running and the pool tidy.",
    "fleet": "Keep each pool at the number of workers that it should have, on this machine.",
    "models": "The models that requests can name.",
    "workers": "The processes that run the models.",
    "requests": "Requests: in a pool, and those that are over.",
    "connections": "Connections of a tenant's clients, and why the last ones ended.",
    "queue": "The line of requests in front of a pool's workers.",
    "safety": "What is looked for in texts: rules of the platform, of tenants and of projects.",
    "biller": "Post the usage of ended requests to the database, each exactly once.",
    "keys": "API keys of a tenant.",
    "sessions": "Browsers in which a tenant's users are signed in (see also `parley people sessions`).",
    "alerts": "Alerts: thresholds of budgets that were reached, and wallets that are low, each told once.",
    "approvals": "Moves of money that one person may not make alone: what waits, approving and rejecting it.",
    "budgets": "Limits on what may be spent in a day, week or month of the tenant's time zone, or ever.",
    "wallets": "Prepaid money: what tenants have, and what it went into.",
    "limits": "Limits on what a tenant may ask at once and a minute.",
    "tenants": "Tenants: the customers of this installation.",
    "people": "People who sign in: staff, and tenants' members.",
    "tokens": "Service tokens, which scripts show.",
    "runs": "What takes long and was begun over the API.",
    "noisy": "Noisy neighbours: who took far more of a pool than its share, and made others wait.",
    "plans": "Plans: prices, priority, place in the pools and limits under one name.",
    "pools": "Dedicated pools: whose they are, their GPU-seconds, commitments, costs.",
    "apply": "Make pools what a file says; shows first what that changes, and asks.",
    "prices": "Price books: what tokens cost, and from when on.",
    "quarantine": (
        "Usage events that cannot be billed as they came: they contradict what was billed, or their own "
        "prices, or no gateway's admission stands behind them."
    ),
    "projects": "Projects of a tenant.",
    "cost-centers": "Cost centers of a tenant: who pays for a project.",
    "spend": "A tenant's money as its portal shows it: what a month costs, why, and how long money lasts.",
    "usage": "Usage and charges: by project, cost center, user, key, model, pool or day.",
    "chargeback": "A tenant's month by any two facts: cost center, project, user, key, model, pool.",
    "users": "Users of a tenant, by the names that the tenant gives them.",
    "search": "Find TEXT: the id of a request, a tenant, user, key or worker, or how its name begins.",
    "operations": "List all operations: routes of the API and what commands do, with the roles that may.",
    "audit": "List administrators' changes, and prove that their record and the books are whole.",
    "reconcile": "Compare the books that must agree; exit code 1 where any differ.",
    "db": "The database.",
    "backup": "Copy the whole installation while it runs.",
    "restore": "Put a backup into an empty database, and make Redis fit it, whether it survived or not.",
    "console": ("Run a console: the API and the pages for operators, or the API for tenants' members."),
}
