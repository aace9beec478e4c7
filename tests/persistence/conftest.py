"""Keep pytest from importing the helpers a second time: a second import would register their classes anew."""

collect_ignore_glob = ["toys.py", "regenerate.py"]
