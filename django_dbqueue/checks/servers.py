"""What to do about what stands around a database's server."""

ACCEPT = "or accept it by adding '{}' to SILENCED_SYSTEM_CHECKS"
HINTS = {
    "dbqueue.W010": (
        "Let workers connect to the server itself: through the pooler nobody hears NOTIFY. The web "
        f"may well go on with it: {ACCEPT.format('dbqueue.W010')} (docs/deployment.md#pgbouncer)."
    ),
    "dbqueue.W011": "Let the address follow the primary; workers wait until one answers there.",
    "dbqueue.W012": (
        "A failover loses the last commits, and the jobs in them: see docs/failover.md, name a "
        f"synchronous standby, {ACCEPT.format('dbqueue.W012')}."
    ),
    "dbqueue.W013": (
        "What one node commits another shows a moment later. Let the balancer keep a client on one "
        "node, or add `SET SESSION wsrep_sync_wait = 7` to its init_command; see docs/clusters.md."
    ),
}
