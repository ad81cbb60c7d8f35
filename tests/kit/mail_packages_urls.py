"""The pages of those packages of ``scripts/mail_packages.py`` that are installed."""

from django.contrib import admin
from django.urls import include, path

from tests.kit.settings_mail_packages import has

PAGES = {
    "djoser": ("auth/", "djoser.urls"),
    "allauth": ("accounts/", "allauth.urls"),
    "wagtail": ("cms/", "wagtail.admin.urls"),
    "django_registration": ("members/", "django_registration.backends.activation.urls"),
    "newsletter": ("newsletter/", "newsletter.urls"),
    "invitations": ("invitations/", "invitations.urls"),
}

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("django.contrib.auth.urls")),
    *(path(at, include(urls)) for name, (at, urls) in PAGES.items() if has(name)),
]
