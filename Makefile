PYTHON ?= python3
PYTEST_ARGS ?=
COVERAGE_ON ?= sqlite
BENCH_ARGS ?=
MUTANTS_ARGS ?=
MEASURE_ARGS ?=
GROWTH_ARGS ?=
BURST_ARGS ?=
ONCE_ARGS ?=
MAIL_ARGS ?=
MAIL_PACKAGES ?=
ADMIN_ARGS ?=
BEANSTALK_ARGS ?=
UNKIND_ARGS ?=
TASKS_ARGS ?=
TORTURE_ARGS ?=
MATRIX_ARGS ?=
# Each is measured in an environment of its own, with benchmarks/adapters/NAME.txt installed.
PEERS = django_tasks_db django_q2 procrastinate pgqueuer huey celery rq dramatiq
# The same for Django Tasks, on the newest Python that is found, and the newest Django.
TASK_PEERS = dbqueue_tasks django_tasks_db dj_queue oban
export BENCH_PEERS ?= .venv-peers
BIN = .venv/bin
PIP_INSTALL = $(BIN)/python -m pip install -q --disable-pip-version-check
STAMPS = .venv/.stamps
MYSQL = build/mysql
# Pages, commands and docs; then files that take some seconds, and seldom tell anything that no other does.
# Whatever PYTEST_ARGS names runs all the same.
QUICK_LEAVES_OUT = admin management project fuzz dialects/test_in_lists.py \
	models/test_exactly_once_kills.py lifecycle/test_rows_by_hand.py testing/test_schedules.py \
	schedules/test_exactly_once.py beanstalk/test_reads.py schedules/test_timing.py \
	checks/test_documented.py worker/test_rate_simulation.py lifecycle/test_key_plans.py \
	mail/test_admin_search.py schedules/test_databases.py mail/test_slow_answer.py \
	testing/test_rates.py worker/test_clocks_of_nodes.py monitor/test_overview.py \
	beanstalk/test_connection.py lifecycle/test_growth.py tools/test_mutants.py mail/test_cut_off.py
SPELLED = benchmarks django_dbqueue docs scripts testproject tests
# One proof, at full length, on each database in turn.
PROOF = $(PYTHON) scripts/servers.py run -- $(BIN)/python scripts/run_tests.py --jobs 1 --workers 1 --only sqlite --only mariadb --only postgresql --full -s

.PHONY: help venv demo admin test test-mysql test-sqlite quick coverage check lint types house prove rates fuzz mutants sweeps growth burst stress torture machine time term leaks bounded cluster matrix figures once mail-versions mail-packages django-mail-tests django-tasks-tests bench bench-peers bench-report bench-confirm bench-pgqueuer bench-ours bench-mail bench-tasks bench-admin bench-beanstalk operator unkind bench-quick dist docs release mysql clean packages pictures redis beanstalkd jackd messages

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16

venv: $(STAMPS)/demo  ## create .venv with what the demo needs

demo: venv  ## run the demo: queue, work and send on SQLite
	$(BIN)/python -m testproject.demo

admin: venv  ## look at the demo's tables in the admin
	$(BIN)/python -m testproject.demo admin

test: packages $(STAMPS)/servers  ## test on every database; PYTEST_ARGS go to pytest
	$(PYTHON) scripts/servers.py run --mariadb --postgresql --in-memory -- $(BIN)/python scripts/run_tests.py $(PYTEST_ARGS)

test-mysql: packages $(STAMPS)/servers mysql  ## all tests of a database on MySQL, none left out; PYTEST_ARGS
	$(PYTHON) scripts/servers.py run --mysql --in-memory -- $(BIN)/python scripts/run_tests.py --only mysql $(PYTEST_ARGS)

test-sqlite: $(STAMPS)/check  ## test on SQLite only, without a server
	$(BIN)/python scripts/run_tests.py --only sqlite $(PYTEST_ARGS)

quick: $(STAMPS)/check  ## what takes about a minute: SQLite, no page, command, process or proof; PYTEST_ARGS
	TMPDIR=$$($(PYTHON) scripts/folders.py) DBQUEUE_TESTS=1 $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder \
		-m "not (browser or process or proof or timing)" $(if $(findstring tests/,$(PYTEST_ARGS)),,$(QUICK_LEAVES_OUT:%=--ignore=tests/%)) $(PYTEST_ARGS)

check: lint types house  ## lint, types, security, spelling, migrations, the house rules, the docs' code and English; --jobs=2 is faster

lint: $(STAMPS)/check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/bandit --quiet --ini setup.cfg
	$(BIN)/codespell --check-filenames *.md Makefile setup.cfg $(SPELLED)

types: $(STAMPS)/check
	$(BIN)/mypy --strict

house: $(STAMPS)/check
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py check
	DBQUEUE_TESTS=1 $(BIN)/python -m pytest tests/project/test_house.py tests/project/test_site.py \
		tests/project/test_blocks.py tests/project/test_style.py

# Also of what a process writes whose folder is another one.
coverage: export COVERAGE_FILE = $(CURDIR)/.coverage
coverage: packages $(STAMPS)/servers  ## branch coverage with the workers' processes, on SQLite; COVERAGE_ON adds databases
	$(BIN)/python -m coverage erase
	$(PYTHON) scripts/servers.py run --in-memory -- $(BIN)/python scripts/run_tests.py --workers 1 --coverage $(COVERAGE_ON:%=--only %) -m "not timing" $(PYTEST_ARGS)
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report

prove: packages $(STAMPS)/servers  ## the promises at full length, on every database (two hours)
	$(PYTHON) scripts/servers.py run -- $(BIN)/python scripts/run_tests.py --jobs 1 --workers 1 --full -m "proof or nightly or process or one_database" -s $(PYTEST_ARGS)

rates: packages $(STAMPS)/servers  ## what starts a second at a rate, and what mail servers see of limits (10 minutes)
	$(PYTHON) scripts/servers.py run -- $(BIN)/python scripts/run_tests.py --jobs 1 --workers 1 --full -m proof -s tests/worker/test_rates.py tests/mail/test_limits.py

growth: packages $(STAMPS)/servers  ## ten million rows next to none, and whether archive and prune keep up under a snapshot (80 minutes, 20 GB); GROWTH_ARGS
	$(PYTHON) scripts/servers.py run -- $(BIN)/python -m benchmarks.growth $(GROWTH_ARGS)

burst: packages $(STAMPS)/servers  ## 5,000 jobs of 20 ms, by a worker that grows and by two that do not (10 minutes); BURST_ARGS
	$(PYTHON) scripts/servers.py run -- $(BIN)/python -m benchmarks.burst $(BURST_ARGS)

sweeps: packages $(STAMPS)/servers  ## a kill, an error, or another verb between any two statements
	$(PROOF) tests/sweeps $(PYTEST_ARGS)

machine: packages $(STAMPS)/servers  ## random calls against a model in plain Python (5 minutes); MACHINE_SEED
	$(PROOF) tests/machine $(PYTEST_ARGS)

time: packages $(STAMPS)/servers  ## hosts whose clocks are wrong, odd zones, the nights of summer time; CLOCKS_SEED
	$(PROOF) tests/dialects/test_clocks.py tests/dialects/test_summer_time.py tests/dialects/test_time.py $(PYTEST_ARGS)

term: packages $(STAMPS)/servers  ## TERM 100 times under load on each database (10 minutes)
	$(PROOF) tests/worker/test_term.py $(PYTEST_ARGS)

leaks: packages $(STAMPS)/servers  ## what 100,000 jobs leave behind on each database (15 minutes)
	$(PROOF) tests/worker/test_leaks.py $(PYTEST_ARGS)

django-mail-tests: $(STAMPS)/check  ## Django's own tests of mail backends, against ours
	$(BIN)/python scripts/django_mail_tests.py $(PYTEST_ARGS)

django-tasks-tests: $(STAMPS)/check  ## Django's own tests of tasks, on 6.0 and 6.1, as they are and against our backend
	$(BIN)/python scripts/django_tasks_tests.py

mail-packages:  ## mail of djoser, allauth, Wagtail and five other packages, through the queue and without (5 minutes); MAIL_PACKAGES
	$(PYTHON) scripts/mail_packages.py $(MAIL_PACKAGES)

mail-versions: $(STAMPS)/check  ## 5,000 generated messages on Django 5.2, 6.0 and 6.1; each reads what all have stored; Django's own tests (20 minutes); PYTEST_ARGS
	$(BIN)/python scripts/mail_versions.py $(PYTEST_ARGS)

mutants: packages $(STAMPS)/servers  ## break the package in over 400 places, one by one: the tests notice (a night); MUTANTS_ARGS
	$(PYTHON) scripts/servers.py run --in-memory -- $(BIN)/python -m tests.mutants $(MUTANTS_ARGS)

fuzz: packages $(STAMPS)/servers  ## nonsense in every column, call, setting and command line, on every database; FUZZ_SEED
	FUZZ_SEED=$${FUZZ_SEED:-$$(date +%s)} $(PROOF) tests/fuzz $(PYTEST_ARGS)

stress: packages $(STAMPS)/servers  ## 10 claimers x 10,000 jobs on each server: none lost, none twice
	$(PYTHON) scripts/servers.py run -- sh scripts/stress.sh

cluster: packages $(STAMPS)/servers  ## poolers, balancers, clusters and failovers (30 minutes); PYTEST_ARGS
	PYTHON=$(PYTHON) sh scripts/install_debian.sh pgbouncer galera-4 haproxy
	DBQUEUE_TESTS=1 $(BIN)/python -m pytest --cluster --full -s -m cluster tests/cluster $(PYTEST_ARGS)

matrix:  ## the contract suite on Debian stable's databases and Python, in a chroot; as root (40 minutes); MATRIX_ARGS
	PYTHON=$(PYTHON) sh scripts/install_debian.sh debootstrap
	$(PYTHON) scripts/matrix.py $(MATRIX_ARGS)

bounded: packages $(STAMPS)/servers  ## 8 producers, some killed, at a bounded queue on each database; what a limit costs (6 minutes)
	$(PROOF) tests/lifecycle/test_bounded_processes.py $(PYTEST_ARGS)
	$(PYTHON) scripts/servers.py run -- sh scripts/bounded.sh

# FIGURES_SECONDS=3600 is an hour of each database; FIGURES_SEED repeats a load.
figures: packages $(STAMPS)/servers  ## every figure of the first page against real counts, under a load with kills (35 minutes); FIGURES_SECONDS
	$(PROOF) tests/monitor/test_figures_under_load.py $(PYTEST_ARGS)

once: packages $(STAMPS)/servers  ## 5,000 exactly-once jobs under SIGKILL on six routes: one effect each (10 minutes); ONCE_ARGS
	$(PYTHON) scripts/servers.py run -- $(BIN)/python scripts/once.py $(ONCE_ARGS)

torture: packages $(STAMPS)/servers  ## kill, stop and cut off workers and servers for 5 minutes each; TORTURE_ARGS
	$(BIN)/python scripts/torture.py --handover 3 $(TORTURE_ARGS)

bench: bench-peers bench-ours bench-mail bench-tasks bench-admin  ## all figures of README and docs (105 minutes)

bench-peers: packages redis $(STAMPS)/servers $(PEERS:%=$(BENCH_PEERS)/%/.stamp)  ## drain no-op jobs beside bare SQL and the peers (15 minutes); BENCH_ARGS
	$(PYTHON) scripts/servers.py run --mariadb --postgresql --redis -- $(BIN)/python -m benchmarks.drain $(BENCH_ARGS)

bench-report: bench-peers  ## measure all that, and publish it: the table, the sentence in README, the chart (15 minutes)
	$(BIN)/python -m benchmarks.published
	$(BIN)/python scripts/speed_chart.py

bench-confirm: bench-quick  ## say whether the published figures hold for the code of today (3 minutes)
	$(BIN)/python -m benchmarks.published --confirm

bench-pgqueuer: packages $(STAMPS)/servers $(BENCH_PEERS)/pgqueuer/.stamp  ## pick-up and coroutines next to pgqueuer's (7 minutes); PGQUEUER_ARGS
	$(PYTHON) scripts/servers.py run --postgresql -- $(BIN)/python -m benchmarks.beside_pgqueuer $(PGQUEUER_ARGS)

bench-ours: packages $(STAMPS)/servers  ## enqueueing, latency, idling, memory (30 minutes); MEASURE_ARGS, IN_MEMORY=1
	$(PYTHON) scripts/servers.py run $(if $(IN_MEMORY),--mariadb --postgresql --in-memory) -- $(BIN)/python -m benchmarks.ours $(MEASURE_ARGS)

bench-mail: packages $(STAMPS)/servers $(BENCH_PEERS)/post_office/.stamp  ## queue and send mail beside django-post_office (10 minutes); MAIL_ARGS
	$(PYTHON) scripts/servers.py run -- $(BIN)/python -m benchmarks.mail $(MAIL_ARGS)

bench-tasks: packages $(STAMPS)/servers $(TASK_PEERS:%=$(BENCH_PEERS)/newest-%/.stamp)  ## Django Tasks next to three other queues: enqueueing, and a drain (12 minutes); TASKS_ARGS
	$(PYTHON) scripts/servers.py run -- $(BIN)/python -m benchmarks.tasks $(TASKS_ARGS)
	$(PYTHON) scripts/servers.py run --postgresql -- $(BIN)/python -m benchmarks.tasks_waiting
	$(BENCH_PEERS)/newest-dbqueue_tasks/bin/python -m benchmarks.tasks_cost default
	$(BENCH_PEERS)/newest-dbqueue_tasks/bin/python -m benchmarks.tasks_cost best

bench-admin: packages $(STAMPS)/servers  ## every page of the admin, command and action at a million jobs, on each database (40 minutes); ADMIN_ARGS
	$(PYTHON) scripts/servers.py run -- $(BIN)/python -m benchmarks.admin $(ADMIN_ARGS)

operator: packages $(STAMPS)/servers  ## what an operator does, in Chromium, next to a million mails: clicks and seconds, on MariaDB and PostgreSQL (5 minutes); PYTEST_ARGS
	$(PYTHON) scripts/servers.py run --mariadb --postgresql -- $(BIN)/python scripts/run_tests.py --jobs 1 --workers 1 --only mariadb --only postgresql --full -s $(PYTEST_ARGS) tests/browser/test_operator.py

bench-beanstalk: packages beanstalkd $(STAMPS)/servers  ## clients of runbeanstalkd next to those of beanstalkd (2 minutes); BEANSTALK_ARGS
	$(PYTHON) scripts/servers.py run -- $(BIN)/python -m benchmarks.beanstalk $(BEANSTALK_ARGS)

unkind: packages $(STAMPS)/servers  ## a client of runbeanstalkd next to 500 unkind ones and a million fuzzed lines, on each database (10 minutes); UNKIND_ARGS
	$(PYTHON) scripts/servers.py run -- $(BIN)/python -m benchmarks.unkind $(UNKIND_ARGS)

bench-quick: packages $(STAMPS)/servers  ## drain no-op jobs beside bare SQL only (3 minutes); BENCH_ARGS
	$(PYTHON) scripts/servers.py run -- $(BIN)/python -m benchmarks.drain --quick $(BENCH_ARGS)

dist: $(STAMPS)/dist  ## build the sdist and the wheel into dist/, and check what PyPI would show
	rm -rf dist django_dbqueue.egg-info
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*

release: $(STAMPS)/check dist docs | packages  ## build a release, install and try it, and say what is missing; nothing is published
	DBQUEUE_DIST=$(CURDIR)/dist $(BIN)/python -m pytest --full tests/project/test_distribution.py tests/project/test_search.py
	$(BIN)/python scripts/release.py

docs: $(STAMPS)/docs  ## build the site into build/docs; a warning is an error
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --doctree-dir build/doctrees docs build/docs

pictures: $(STAMPS)/check  ## take the pictures of the docs: the admin's pages, a film of a kill, the chart of rates (2 minutes)
	$(BIN)/python scripts/pictures.py
	$(BIN)/python scripts/speed_chart.py

# Django's own tools, which are gettext's: nobody who installs the package needs them.
messages: $(STAMPS)/check | packages  ## gather the texts into the catalogues of translations, and compile these
	PYTHON=$(PYTHON) sh scripts/install_debian.sh gettext
	cd django_dbqueue && ../$(BIN)/django-admin makemessages --all --no-wrap --no-obsolete --add-location file
	cd django_dbqueue && ../$(BIN)/django-admin compilemessages

mysql:  ## unpack a MySQL server of Debian's unstable suite into build/; nothing is installed
	sh scripts/fetch_mysql.sh $(MYSQL)

clean:  ## remove environments, caches and the demo's data
	rm -rf .venv .venv-newest .venv-django-* .venv-peers .demo build dist *.egg-info
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage* htmlcov
	rm -f *.sqlite3*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

packages:
	PYTHON=$(PYTHON) sh scripts/install_debian.sh

redis: | packages
	PYTHON=$(PYTHON) sh scripts/install_debian.sh redis-server

jackd:  ## install a client of beanstalkd for Node into build/, for a test
	npm install --silent --no-save --prefix build/node jackd@2

beanstalkd: | packages
	PYTHON=$(PYTHON) sh scripts/install_debian.sh beanstalkd

$(STAMPS)/venv:
	$(PYTHON) -m venv .venv
	@mkdir -p $(@D) && touch $@

$(STAMPS)/demo: $(STAMPS)/venv setup.cfg
	$(PIP_INSTALL) -e '.[demo]'
	@touch $@

$(STAMPS)/check: $(STAMPS)/venv setup.cfg
	$(PIP_INSTALL) -e '.[test,check]'
	@touch $@

$(STAMPS)/dist: $(STAMPS)/venv setup.cfg
	$(PIP_INSTALL) -e '.[dist]'
	@touch $@

$(STAMPS)/docs: $(STAMPS)/venv setup.cfg
	$(PIP_INSTALL) -e '.[docs]'
	@touch $@

# On top of what `make check` has installed, so that nothing is installed twice.
$(STAMPS)/servers: $(STAMPS)/check | packages
	$(PIP_INSTALL) -e '.[mysql,postgresql]'
	@touch $@

$(BENCH_PEERS)/%/.stamp: benchmarks/adapters/%.txt | packages
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install -q --disable-pip-version-check -r $<
	@touch $@

$(BENCH_PEERS)/newest-%/.stamp: benchmarks/adapters/%.txt | packages
	$$($(PYTHON) scripts/newest_python.py) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install -q --disable-pip-version-check -r $<
	@touch $@
