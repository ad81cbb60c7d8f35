"""Mutants of the dialects, each on its own database."""

BASE, SQLITE = "dialects/base.py", "dialects/sqlite.py"
MYSQL, POSTGRESQL = "dialects/mysql.py", "dialects/postgresql.py"
MARIADB, ON_POSTGRESQL = {"database": "mariadb"}, {"database": "postgresql"}

MUTANTS = [
    (BASE, "{instant} <= {self.now_plus", "{instant} >= {self.now_plus", "the future is past"),
    (
        BASE,
        "{instant} <= {self.now_plus",
        "{instant} < {self.now_plus",
        "an instant is past a moment later",
        {"harmless": "the next pass comes within a second"},
    ),
    (SQLITE, "WHERE {CLAIMABLE} AND queue = {self", "WHERE queue = {self", "claims any job"),
    (
        SQLITE,
        "AND queue = {self.placeholder(claim.queue)}",
        "AND {self.placeholder(claim.queue)} IS NOT NULL",
        "claims from any queue",
    ),
    (SQLITE, "ORDER BY priority, {claim.pk}", "ORDER BY {claim.pk}", "priorities are not heeded"),
    (
        SQLITE,
        "ORDER BY priority, {claim.pk}",
        "ORDER BY priority",
        "claims in any order",
        {"harmless": "the index by which it claims ends with the key"},
    ),
    (
        SQLITE,
        'name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"',
        'name.startswith(("SQLITE_LOCKED"',
        "a busy database is an error",
    ),
    (BASE, "found[0][0] if found else None", "found[0][0] if found else 1", "a twin is new"),
    (
        MYSQL,
        "SET {claim.sets} WHERE {CLAIMABLE} AND {among}",
        "SET {claim.sets} WHERE {among}",
        "claims what another has claimed since the look",
        MARIADB,
    ),
    (
        MYSQL,
        "WHERE {among} AND owner = %s",
        "WHERE {among} AND %s IS NOT NULL",
        "runs what another has claimed",
        MARIADB,
    ),
    (
        MYSQL,
        "if self.unread is not None and self.unread[0] is claim:",
        "if False:",
        "jobs are claimed that nobody reads",
        MARIADB,
    ),
    (
        MYSQL,
        "WHERE {CLAIMABLE} AND queue = %s{claim.only} ",
        "WHERE queue = %s{claim.only} ",
        "finished jobs hide the ready ones",
        MARIADB,
    ),
    (
        MYSQL,
        "            if cursor.rowcount:\n                self.unread",
        "            if True:\n                self.unread",
        "after a conflict nothing is claimed",
        MARIADB,
    ),
    (
        MYSQL,
        "window = 4 * claim.limit + 20 if wide else claim.limit",
        "window = claim.limit + 20",
        "claims in any order",
        MARIADB,
    ),
    (MYSQL, "    1213: ErrorKind.AGAIN,", "    ", "a deadlock is an error", MARIADB),
    (
        MYSQL,
        "priority = IF(LAST_INSERT_ID({REFUSED}), priority, priority)",
        "priority = priority",
        "a twin is new",
        MARIADB,
    ),
    (
        POSTGRESQL,
        "WHERE {CLAIMABLE} AND queue = %s",
        "WHERE queue = %s",
        "claims any job",
        ON_POSTGRESQL,
    ),
    (
        POSTGRESQL,
        " FOR UPDATE SKIP LOCKED",
        "",
        "two claims at the same moment take the same jobs",
        ON_POSTGRESQL,
    ),
    (
        POSTGRESQL,
        "ORDER BY priority, {claim.pk}",
        "ORDER BY {claim.pk}",
        "priorities are not heeded",
        ON_POSTGRESQL,
    ),
    (
        POSTGRESQL,
        "{instant} <= STATEMENT_TIMESTAMP()",
        "{instant} >= STATEMENT_TIMESTAMP()",
        "the future is past",
        ON_POSTGRESQL,
    ),
    (POSTGRESQL, '    "40P01": ErrorKind.AGAIN,', "    ", "a deadlock is an error", ON_POSTGRESQL),
    (
        BASE,
        " DO NOTHING RETURNING",
        " DO UPDATE SET priority = 1 RETURNING",
        "a twin is a job of its own",
        ON_POSTGRESQL,
    ),
]
