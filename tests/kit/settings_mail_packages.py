"""A project with all those packages of ``scripts/mail_packages.py`` that are installed."""

from importlib.util import find_spec

# By the package, its apps.
APPS = {
    "rest_framework": ["rest_framework"],
    "djoser": ["djoser"],
    "allauth": ["allauth", "allauth.account"],
    "taggit": ["taggit"],
    "modelcluster": ["modelcluster"],
    "wagtail": [
        "wagtail",
        *("wagtail.admin", "wagtail.documents", "wagtail.images"),
        *("wagtail.users", "wagtail.search", "wagtail.sites", "wagtail.snippets"),
    ],
    "django_registration": ["django_registration"],
    "sorl": ["sorl.thumbnail"],
    "newsletter": ["newsletter"],
    "invitations": ["invitations"],
    "django_otp": [
        *("django_otp", "django_otp.plugins.otp_static", "django_otp.plugins.otp_totp"),
        "django_otp.plugins.otp_email",
    ],
    "two_factor": ["two_factor", "two_factor.plugins.email"],
    "mail_templated": ["mail_templated"],
}


class NoMigrations:
    """All tables are made at once."""

    def __contains__(self, app: str) -> bool:
        return True

    def __getitem__(self, app: str) -> None:
        return None


def has(package: str) -> bool:
    return find_spec(package) is not None


SECRET_KEY = "for-a-test"
USE_TZ = True
SITE_ID = 1
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.kit.mail_packages_urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
MIGRATION_MODULES = NoMigrations()
INSTALLED_APPS = [
    "django_dbqueue",
    "django_dbqueue.mail",
    *("django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes"),
    *("django.contrib.messages", "django.contrib.sessions", "django.contrib.sites"),
    "django.contrib.staticfiles",
    *(app for package, apps in APPS.items() if has(package) for app in apps),
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    *(["allauth.account.middleware.AccountMiddleware"] if has("allauth") else []),
]
LOADERS = [
    (
        "django.template.loaders.locmem.Loader",
        {
            "letter.tpl": "{% extends 'mail_templated/base.tpl' %}"
            "{% block subject %}Hello {{ user }}{% endblock %}"
            "{% block body %}text for {{ user }}{% endblock %}"
            "{% block html %}<p>{{ user }}</p>{% endblock %}",
            "django_registration/activation_email_subject.txt": "Activate",
            "django_registration/activation_email_body.txt": "{{ activation_key }}",
        },
    ),
    "django.template.loaders.app_directories.Loader",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "OPTIONS": {
            "loaders": LOADERS,
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]
STATIC_URL = "/static/"
WAGTAIL_SITE_NAME = "X"
WAGTAILADMIN_BASE_URL = "http://x.example"
ACCOUNT_ACTIVATION_DAYS = 1
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
ACCOUNT_SIGNUP_FIELDS = ["username*", "email*", "password1*", "password2*"]
ACCOUNT_RATE_LIMITS = False
DEFAULT_FROM_EMAIL = "shop@x.example"
DJOSER = {
    "SEND_ACTIVATION_EMAIL": True,
    "SEND_CONFIRMATION_EMAIL": True,
    "PASSWORD_CHANGED_EMAIL_CONFIRMATION": True,
    "ACTIVATION_URL": "activate/{uid}/{token}",
    "PASSWORD_RESET_CONFIRM_URL": "reset/{uid}/{token}",
}
NEWSLETTER_THUMBNAIL = "sorl-thumbnail"
DBQUEUE = {"MAIL_DELIVERY_BACKEND": "django.core.mail.backends.locmem.EmailBackend"}
