"""Mutants of what becomes of mail: outcomes, providers' news, sending again, forgetting."""

OUTCOMES, TRACKING = "mail/outcomes.py", "mail/tracking.py"
PERSON, FORGET, ERASE = "mail/privacy/person.py", "mail/privacy/forget.py", "mail/privacy/erase.py"
SIDE_ROWS, RECIPIENT = "lifecycle/side_rows.py", "mail/models/recipient.py"
IN_DOUBT, EMAIL = "mail/in_doubt.py", "mail/models/email.py"

MUTANTS = [
    (
        OUTCOMES,
        "PAUSE_CODES = {421, 454}",
        "PAUSE_CODES = {454}",
        "421 is no wish to be left alone",
    ),
    (
        OUTCOMES,
        "later = LOGIN_CODES | {TOO_MANY} if to_one else LOGIN_CODES",
        "later = LOGIN_CODES",
        "who was one recipient too many is refused for good",
    ),
    (
        OUTCOMES,
        '"fail" if status // 100 in {2, 4} else "retry"',
        '"fail" if status // 100 == 4 else "retry"',
        "what a provider has taken is sent again, as its answer cannot be read",
    ),
    (
        OUTCOMES,
        "isinstance(error, ITS_OWN_FAULT) and not is_of_the_network",
        "isinstance(error, ITS_OWN_FAULT)",
        "mail fails for good by an error of the network",
    ),
    (
        OUTCOMES,
        "if given in MEANINGS:",
        "if True:",
        "a classifier's nonsense is believed",
    ),
    (
        TRACKING,
        "return None if is_soft else Reason.BOUNCE",
        "return Reason.BOUNCE",
        "a full mailbox suppresses its address for ever",
    ),
    (
        TRACKING,
        "if model is Email and row.status == Status.CLAIMED:",
        "if False:",
        "news of mail in a worker's hands are lost to what the worker writes",
    ),
    (
        TRACKING,
        "(news.outcome is Outcome.REFUSED or news.at > known.at)",
        "True",
        "what has come back counts as delivered by older news",
    ),
    (
        TRACKING,
        "KEEP_NEWS_SECONDS = 3600.0",
        "KEEP_NEWS_SECONDS = 3.6",
        "early news are given up after seconds",
    ),
    (
        PERSON,
        r"(?<![\w.!#$%&'*+/=?^`{{|}}~-])(?:{locals_})",
        "(?:{locals_})",
        "to forget anna is to forget joanna",
    ),
    (
        PERSON,
        r"(?:{domains})(?![\w-]|\.\w)",
        "(?:{domains})",
        "to forget somebody at x.example is to forget somebody at x.example.org",
    ),
    (
        PERSON,
        "if name.lower() in SENDER_HEADERS:",
        "if False:",
        "who is forgotten is taken out of mail that they have sent",
    ),
    (
        FORGET,
        "free = [one for one in seen if one[1] != Status.CLAIMED]",
        "free = seen",
        "mail is deleted under the hands of its worker",
    ),
    (
        ERASE,
        '(HAS_ENDED if isinstance(emails[0], Email) else "") + ',
        "",
        "mail that is still to be sent loses its message",
    ),
    (
        FORGET,
        "return quote_plus(person.out_of_text(value)) if person.is_in(value) else found[0]",
        "return found[0]",
        "the admin's log goes on naming whom somebody has searched for",
    ),
    (
        IN_DOUBT,
        "if not doubtful or row.status != Status.BURIED:",
        "if not doubtful:",
        "mail is marked as sent while it is tried again",
    ),
    (
        IN_DOUBT,
        "partial(operator.kick, attempts=1)",
        "operator.kick",
        "who was refused is asked again once others are marked as sent",
    ),
    (
        EMAIL,
        "if before.waiting(message.recipients(), refused_too=True):",
        "if False:",
        "who has got a message gets it a second time",
    ),
    (EMAIL, "    if other is not None:\n", "    if False:\n", "a mail is sent again twice"),
    (
        EMAIL,
        'if k.lower() != "message-id"',
        "",
        "a message that is sent again has the Message-ID of the first",
    ),
    (
        SIDE_ROWS,
        "side.delete(table, gone(table, keys))",
        "pass",
        "mail that is gone leaves whom it was for",
    ),
    (
        SIDE_ROWS,
        "left = [key for key in left if table.db_key(key) not in here]",
        "pass",
        "mail that was archived meanwhile is not found any more",
    ),
    (
        "mail/admin/search.py",
        'if "@" in term and model_admin.may_find_by(request, "recipients"):',
        'if "@" in term:',
        "who may not see an address finds it",
    ),
    (
        RECIPIENT,
        'recipients = pieces(email.recipients or "") if given is None else given',
        "recipients = given or ()",
        "mail that was not made from a message is found by no address",
    ),
    (
        FORGET,
        "RecipientRows().renew(self.table, row)",
        "pass",
        "who was forgotten is found in mail to others",
    ),
]
