"""What a page says in sentences, without its code and its links; and what is wrong with them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CODE = re.compile(r"^( *)```.*?^\1```$|`[^`]*`", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
TARGET = re.compile(r"\]\([^)]*\)")
ITEM = re.compile(r"\n(?=\s*(?:[-*]|\d+\.) )")
END = re.compile(r"(?<=[.!?;:])[\"')*]* +(?=[\"A-Z0-9*\[(])")
WORD = re.compile(r"[\w'.-]*\w[\w'.-]*")
WORDS_MAX = 40

# What CONTRIBUTING and the glossary ask to write otherwise, with what to write.
WORDS = {
    r"whoever|whomever|whosoever": "anyone who, those who",
    r"besides?": "next to, also",
    r"afresh|anew": "again",
    r"st[ao]nds? in|stood in|standing in": "is in",
    r"dear|dearer": "expensive",
    r"hitherto|henceforth|thereof|wherein|herein|thereby": "a plain word",
    r"be it": "whether it is",
    r"utilize[sd]?|leverage[sd]?": "use",
    r"latecomers?": "late events",
    r"a mail(?! server)|mails": "an email, emails",
}
INVERSION = "an inversion: the subject comes first"
PATTERNS = {
    r"\w\.\.(?!\.)|(?<![.\w/])\.\.(?![.\w/])": "'…', not '..'",
    # "So is the span of ...", "nor does one whose ...": the subject comes first.
    r"\b(?:so|nor|neither) (?:is|are|do(?:es)?|did|was|were|can|has|have) (?!not\b)\w+": INVERSION,
    # "Who asks is answered.", "Of a batch the context names ...", at the beginning of a sentence.
    r"(?:^|[.!;] |\| )Who [^?|]*?[.|]": "a sentence that begins with a relative clause",
    r"(?:^|[.!;] |\| )Of (?!course\b)[^.|]*": "a sentence that begins with a genitive",
    r"(?:^|[.!] )Else\b": "write 'Otherwise'",
    r"\bthat there (?:is|are) not\b": "write 'that does not exist'",
    r"(?:^|[.!] )Not \w+ (?:are|is|was|were)\b": INVERSION,
    r"(?:^|[.!] )(?:Never|Seldom|Only) (?:is|are|do(?:es)?|was|were|has|have)\b": INVERSION,
}


@dataclass(frozen=True)
class Sentence:
    line: int
    text: str


def sentences_of(page: Path) -> Iterator[Sentence]:
    """Code is one word, X; the cells of a table, and the items of a list, are apart."""
    text = CODE.sub(lambda code: "\n" * code[0].count("\n") + "X", page.read_text())
    text = TARGET.sub("]", COMMENT.sub(keep_lines, text))
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", text):
        if paragraph.strip() and not paragraph.lstrip().startswith("#"):
            for part in parts_of(paragraph):
                for sentence in END.split(" ".join(part.split())):
                    yield Sentence(line, sentence)
        line += paragraph.count("\n")


def keep_lines(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def parts_of(paragraph: str) -> list[str]:
    if paragraph.lstrip().startswith("|"):
        rows = paragraph.splitlines()
        return [cell for row in rows for cell in row.strip("| ").split("|")]
    return ITEM.split(paragraph)


def problems(sentence: str) -> Iterator[str]:
    for words, better in WORDS.items():
        for found in re.finditer(rf"\b(?:{words})\b", sentence, re.IGNORECASE):
            yield f"{found[0]!r}: write {better}"
    for pattern, what in PATTERNS.items():
        for found in re.finditer(pattern, sentence):
            yield f"{what}: {found[0][:60]!r}"
    if len(WORD.findall(sentence)) > WORDS_MAX and "·" not in sentence:
        yield f"more than {WORDS_MAX} words"
