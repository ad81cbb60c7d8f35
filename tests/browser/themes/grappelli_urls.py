from django.urls import include, path

from testproject.urls import urlpatterns as ours

urlpatterns = [path("grappelli/", include("grappelli.urls")), *ours]
