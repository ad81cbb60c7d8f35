"""What to do about what stands around a database's server."""

ACCEPT = "or accept it by adding '{}' to SILENCED_SYSTEM_CHECKS"
UPKEEP = (
    "ALTER TABLE {0} SET (autovacuum_enabled = on, autovacuum_vacuum_scale_factor = 0, "
    "autovacuum_vacuum_threshold = 20000), and autovacuum = on in postgresql.conf."
)
HINTS = {
    "dbqueue.W010": (
        "Let workers connect to the server itself: through the pooler nobody hears NOTIFY; "
        f"{ACCEPT.format('dbqueue.W010')}, as for the web (docs/deployment.md#pgbouncer)."
    ),
    "dbqueue.W011": "Let the address follow the primary; workers wait until one answers there.",
    "dbqueue.W012": (
        "A failover to one of them loses the last commits, and the jobs in them: see "
        f"docs/failover.md, name a synchronous standby, {ACCEPT.format('dbqueue.W012')}."
    ),
    "dbqueue.W014": (
        "End the transaction that keeps them: SELECT trx_mysql_thread_id, trx_started FROM "
        "information_schema.INNODB_TRX ORDER BY trx_started LIMIT 1. If there is none: SET GLOBAL "
        "innodb_purge_threads = 8, innodb_purge_batch_size = 1000."
    ),
    "dbqueue.W015": (
        "What one node commits another shows a moment later. Let the balancer keep a client on one "
        "node, or add `SET SESSION wsrep_sync_wait = 7` to its init_command; see docs/clusters.md."
    ),
}
