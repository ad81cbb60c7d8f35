"""Where providers tell what became of mail."""

from django.urls import include, path

urlpatterns = [path("anymail/", include("anymail.urls"))]
