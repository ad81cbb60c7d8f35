"""What is asked before something is done to emails."""

from django.utils.translation import gettext_lazy

from ...admin.confirmation import Question

RESEND = Question(
    "resend_selected",
    gettext_lazy("Send again"),
    gettext_lazy(
        "Each of these is queued once more, as a new email with a Message-ID of its own: to those "
        "recipients who have not got it, or, where all have, to all of them."
    ),
    gettext_lazy("Send again"),
    "resend",
)
FORGET = Question(
    "forget_selected",
    gettext_lazy("Erase messages"),
    gettext_lazy(
        "The subject, the text and the attachments of these are erased for good. That they were "
        "sent, when and to whom stays known. Mail that waits or is claimed is left as it is."
    ),
    gettext_lazy("Erase for good"),
    "forget",
)
SETTLE = Question(
    "settle_selected",
    gettext_lazy("Mark as sent"),
    gettext_lazy("What is in doubt among these is marked as sent, and is not tried again."),
    gettext_lazy("Mark as sent"),
    "settle",
)
