"""The code that decides how fast a queue is drained, and whether it has changed since a run."""

import hashlib
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent
PACKAGE = BENCHMARKS.parent / "django_dbqueue"
# Modules of which a worker that drains a queue calls a function for each batch. A test holds it on
# SQLite; all of the dialects' are here. Defaults of settings are not, though they count as well.
HOT_PATH = (
    *("events.py", "guard.py", "models/job.py", "worker/background.py", "worker/options.py"),
    *("dialects/__init__.py", "dialects/base.py", "dialects/types.py", "dialects/claim_turns.py"),
    "dialects/floors.py",
    *("dialects/mysql.py", "dialects/sqlite.py"),
    *("dialects/postgresql.py", "dialects/postgresql_turns.py"),
    *("lifecycle/claim.py", "lifecycle/execute.py", "lifecycle/holder.py", "lifecycle/table.py"),
    *("lifecycle/key_wakeup.py", "lifecycle/low_water.py", "lifecycle/policy.py"),
    *("lifecycle/claim_end.py", "lifecycle/limiter.py", "lifecycle/versions.py"),
    *("metrics/recorder.py", "metrics/wait_times.py"),
    *("worker/buffer.py", "worker/claimer.py", "worker/claimers.py", "worker/connections.py"),
    *("worker/consumer.py", "worker/finisher.py", "worker/job_log.py", "worker/job_signals.py"),
    *("worker/joint_claim.py", "worker/queue_poller.py", "worker/rate_gate.py"),
    *("worker/reconcile.py", "worker/runner.py", "worker/served.py", "worker/session.py"),
    *(
        "worker/shared_memory.py",
        "worker/waiting_suspects.py",
        "worker/wakeup.py",
        "worker/write_outcomes.py",
    ),
)
OURS_AND_BARE = ("adapters/dbqueue.py", "adapters/bare.py")  # what runs it, and what it is held to
BEGINS_F_STRING = getattr(tokenize, "FSTRING_START", -1)  # since Python 3.12, as its end
ENDS_F_STRING = getattr(tokenize, "FSTRING_END", -1)
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}
BLOCKS = {tokenize.INDENT: "<begin>", tokenize.DEDENT: "<end>", tokenize.NEWLINE: "<line>"}
BEGINNINGS = ([], *([word] for word in BLOCKS.values()))  # of a statement


def fingerprint() -> str:
    """Of the code of ``HOT_PATH``, whatever its comments, docstrings and layout are."""
    found = hashlib.sha256()
    paths = [*(PACKAGE / name for name in HOT_PATH), *(BENCHMARKS / name for name in OURS_AND_BARE)]
    for path in sorted(paths):
        found.update(f"{path.name}\n{code_of(path.read_text())}\n".encode())
    return found.hexdigest()[:12]


def code_of(source: str) -> str:
    """Its tokens, the same for each version of Python."""
    tokens = iter([token for token in _tokens(source) if token.type not in LAYOUT])
    words: list[str] = []
    for token in tokens:
        if token.type == tokenize.STRING and words[-1:] in BEGINNINGS:
            after = next(tokens)
            if after.type == tokenize.NEWLINE:  # a docstring, or a string that does nothing
                continue
            words += [token.string, after.string]
            continue
        if token.string in {")", "]", "}"} and words[-1:] == [","]:
            words.pop()  # a formatter puts it there and takes it away
        words.append(BLOCKS.get(token.type, token.string))
    return " ".join(words)


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    """An f-string is one token, as it was before Python 3.12."""
    lines, depth, begin = source.splitlines(keepends=True), 0, (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == BEGINS_F_STRING:
            begin = begin if depth else token.start
            depth += 1
        elif token.type == ENDS_F_STRING:
            depth -= 1
            if not depth:
                text = _between(lines, begin, token.end)
                yield tokenize.TokenInfo(tokenize.STRING, text, begin, token.end, token.line)
        elif not depth:
            yield token


def _between(lines: list[str], begin: tuple[int, int], end: tuple[int, int]) -> str:
    (first, left), (last, right) = begin, end
    if first == last:
        return lines[first - 1][left:right]
    middle = lines[first : last - 1]
    return "".join([lines[first - 1][left:], *middle, lines[last - 1][:right]])
