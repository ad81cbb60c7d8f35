"""Mutants of mail on its way: whom it goes to, when, and in which words."""

RATES, MAILER, CONF = "lifecycle/rates.py", "mail/models/mailer.py", "mail/conf.py"
SUPPRESSION, DELIVERIES = "mail/models/suppression.py", "mail/deliveries.py"
BACKOFF, CODEC, PARTS = "mail/backoff.py", "mail/storing/codec.py", "mail/storing/parts.py"
ENVELOPE, CONNECTIONS = "mail/sending/envelope.py", "mail/sending/connections.py"
SEND, BACKENDS, HEADERS = "mail/sending/send.py", "mail/backends.py", "mail/headers.py"

MUTANTS = [
    (
        RATES,
        "self.seconds * max(1.0, count / self.limit)",
        "self.seconds",
        "a message to very many uses up a single period",
    ),
    (
        RATES,
        "and not is_full",
        "and False",
        "a message to more than the limit goes out at any time",
    ),
    (
        RATES,
        "return now < at <= now + rate.back_after(int(count)) + AHEAD_SECONDS_MAX",
        "return now < at",
        "after the clock was set back a mailer stands still",
    ),
    (
        RATES,
        "[round(max(other, back_at), 4), others + count]",
        "[round(max(other, back_at), 4), count]",
        "of tokens that were taken together only the last count",
    ),
    (
        MAILER,
        ".exclude(paused_until__gt=until)",
        "",
        "a short pause of a mailer ends a longer one",
    ),
    (
        SUPPRESSION,
        "given = {address: normal(address) for address in addresses}",
        "given = {address: address for address in addresses}",
        "a suppressed address in another spelling gets mail",
    ),
    (
        DELIVERIES,
        "unquote(local)).lower()",
        "unquote(local))",
        "capitals make another person",
    ),
    (DELIVERIES, 'domain.strip().rstrip(".")', "domain.strip()", "a dot makes another domain"),
    (
        BACKOFF,
        'cap=mail_conf["RETRY_CAP"]',
        'cap=float("inf")',
        "mail is tried again only after days",
    ),
    (CONF, '"RETRY_FIRST": 1200.0', '"RETRY_FIRST": 12.0', "mail is tried again after seconds"),
    (
        CODEC,
        "_headers(without_options(message.extra_headers))",
        "_headers(message.extra_headers)",
        "headers that are for us alone are delivered",
    ),
    (
        CODEC,
        'ADDRESS_LISTS = ("to", "cc", "bcc", "reply_to")',
        'ADDRESS_LISTS = ("to", "cc", "bcc")',
        "a message loses its Reply-To",
    ),
    (
        CODEC,
        'if part != "reply_to" and has_several(address):',
        "if False:",
        "two addresses in one text pass for one",
    ),
    (
        CODEC,
        'if name.lower() == "bcc":',
        'if name == "bcc":',
        "a header shows the blind copies to everybody",
    ),
    (
        PARTS,
        r'LINE_BREAK = re.compile(r"[\r\n\0]")',
        r'LINE_BREAK = re.compile(r"[\n\0]")',
        "a carriage return begins another header",
    ),
    (
        PARTS,
        "mangle_from_=False",
        "mangle_from_=True",
        'a line that begins with "From " is changed',
    ),
    (
        SEND,
        "is_first = email.attempts <= 1",
        "is_first = True",
        "who was refused is asked again at every attempt",
    ),
    (
        SEND,
        "if holds and email.crashes and envelope.recipients:",
        "if False:",
        "what a dead child may have sent is sent again though it is to be held",
    ),
    (SEND, "if deliveries.having(OPEN):", "if False:", "who was put off is given up"),
    (
        SEND,
        "len(envelope.handed_over_for) if",
        "1 if",
        "a limit counts messages, not recipients",
    ),
    (
        SEND,
        "one.doubts > repeats for",
        "one.doubts >= repeats for",
        "mail is held in doubt one attempt too soon",
    ),
    (
        SEND,
        "    if holds and deliveries.is_under_way:\n",
        "    if False:\n",
        "mail that a stopped worker may have sent is sent again",
    ),
    (SEND, "TAKEN = {250, 251, 252}", "TAKEN = {250}", "whom a server forwards to is refused"),
    (
        SEND,
        "if error is not None and self._was_hung_up(error):",
        "if False:",
        "a connection that a server has given up costs an attempt",
    ),
    (
        SEND,
        "self._heard is None or self._heard.recipients:",
        "self._heard is None:",
        "who was hung up on in the middle of a message is asked at once again",
    ),
    (
        SEND,
        'if meaning == "fail" and not self._is_connected:',
        "if False:",
        "mail has failed for good since nobody could be reached",
    ),
    (
        SEND,
        "            self.wants_pause = error\n",
        "            pass\n",
        "a server that wants to be left alone is not",
    ),
    (
        ENVELOPE,
        "allowed = [one for one in waiting if is_allowed(one)]",
        "allowed = list(waiting)",
        "mail leaves MAIL_ALLOWED_DOMAINS",
    ),
    (
        ENVELOPE,
        'domain == one or domain.endswith(f".{one}")',
        "domain.endswith(one)",
        "notexample.org passes for example.org",
    ),
    (
        ENVELOPE,
        "return bool(found) and all(at and",
        "return bool(found) and any(at and",
        "of two addresses in one text a single one has to be allowed",
    ),
    (
        ENVELOPE,
        "left = [one for one in allowed if address_of(one) not in suppressed]",
        "left = allowed",
        "suppressed addresses get mail",
    ),
    (
        ENVELOPE,
        "if address_of(one) in known}",
        "}",
        "a provider is told what was to be merged for those who get nothing",
    ),
    (
        CONNECTIONS,
        'if self.messages >= mail_conf["CONNECTION_MAX_MESSAGES"]:',
        "if False:",
        "a connection carries more messages than it may",
    ),
    (
        CONNECTIONS,
        "        kept.close()\n        raise",
        "        raise",
        "after an error nobody says goodbye",
    ),
    (
        CONNECTIONS,
        'backend.timeout = mail_conf["TIMEOUT"]',
        "pass",
        "a server that says nothing is waited for without end",
    ),
    (
        CONNECTIONS,
        "    backend.fail_silently = False\n",
        "",
        "a mailer that fails in silence has sent everything",
    ),
    (
        CONNECTIONS,
        "        self.listener.conversation.is_in_doubt = True\n",
        "",
        "mail that was sent and not answered is no case of doubt",
    ),
    (
        CONNECTIONS,
        "        self.listener.conversation.is_in_doubt = False\n",
        "",
        "a message that the server has refused as a whole is in doubt",
    ),
    (
        BACKENDS,
        "if message.recipients() and not leads_to_more(message):",
        "if message.recipients():",
        "mail about the failure of mail never ends",
    ),
    (
        HEADERS,
        "if isinstance(message.extra_headers[name], GeneratedMessageID):",
        "if True:",
        "the project's own Message-ID is taken out",
    ),
]
