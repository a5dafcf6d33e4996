"""Every command that changes something or lets something out leaves its row in the audit log; every other one
is named as such, and none shows what was said."""

import json
import sqlite3
from contextlib import closing

from click.testing import Result

from chaos.tampering.unguarded import unguarded_file
from tests.billing.cli.audited_office import (
    COMMANDS,
    READS,
    READS_TEXT,
    ROOT,
    CommandsOffice,
    named,
)
from tests.billing.cli.audited_office import office as office

NO_ADMINISTRATION = {
    "audit head": "keeps elsewhere how far the audit log goes, and would move that by a row of its own",
    "backup": "copies what there is, and changes nothing of it",
    "biller": "a process: what it books is in the ledger's own chain",
    "chat": "a user's, with a user's key",
    "db migrate": "makes the audit log",
    "db roles": "who may read and write the audit log itself: its owner says so, in SQL that is printed",
    "fleet": "a process: what it starts follows rows whose changes are recorded",
    "gateway": "a process",
    "reconcile": "compares books, and keeps what it found",
    "redis acl": "writes files on this machine; Redis is told by whoever gives it the file",
    "secrets admission": "shows what anybody makes who has the signing secret, as its caller does",
    "supervisor": "a process",
    "up": "starts processes; the first model and tenant are recorded as any are",
    "usage rebuild": "makes sums again from lines; nothing that was said changes",
    "worker": "a process",
}
# Orders that need a pool or a model folder, and the test that sees the row of each.
ELSEWHERE = {
    "chargeback schedule delete": "tests/billing/posting/test_report_schedules.py::"
    "test_who_is_asked_for_must_see_money_and_be_of_the_tenant",
    "runs stop": "tests/billing/unit_of_work/test_runs.py::test_a_run_is_stopped_at_another_console",
    "apply": "tests/billing/cli/test_apply.py::test_a_file_is_shown_asked_for_and_done",
    "approvals approve": "tests/billing/approvals/test_approvals.py::test_a_move_above_the_limit_takes_two",
    "approvals reject": "tests/billing/approvals/test_approvals.py::test_a_proposal_that_is_rejected_is_over",
    "demo seed": "tests/admin/examples/test_seed.py::test_all_is_booked_and_every_check_is_equal",
    "console": "tests/admin/test_console.py::test_links_and_sign_ins_are_recorded",
    "models add": "tests/engine/cli/test_recorded_orders.py::test_a_model_is_recorded_once",
    "models answers": "tests/engine/cli/test_recorded_orders.py::test_a_model_is_recorded_once",
    "models remove": "tests/engine/operations/test_models.py::"
    "test_a_removed_version_loses_its_files_and_cannot_be_named",
    "models rollback": "tests/engine/operations/test_models.py::test_a_pool_goes_back_to_the_version_before",
    "models use": "tests/engine/operations/test_models.py::"
    "test_a_version_is_made_ready_in_all_pools_that_serve_the_model",
    "pools create": "tests/billing/operations/test_desired_pools.py::test_each_change_is_recorded",
    "pools delete": "tests/billing/operations/test_desired_pools.py::test_each_change_is_recorded",
    "pools drain": "tests/billing/operations/test_desired_pools.py::test_each_change_is_recorded",
    "pools edit": "tests/billing/operations/test_desired_pools.py::test_each_change_is_recorded",
    "pools move": "tests/engine/operations/test_moving_tenants.py::test_live_answers_follow_their_tenant",
    "pools resize": "tests/billing/operations/test_desired_pools.py::test_each_change_is_recorded",
    "people forget-totp": "tests/billing/operations/test_people.py::test_ones_own_password_and_second_factor",
    "restore": "tests/admin/backup/test_restore.py::test_what_was_rolled_back_is_recorded",
    "requests cancel": "tests/engine/cli/test_recorded_orders.py::test_orders_to_requests",
    "requests migrate": "tests/engine/cli/test_recorded_orders.py::test_orders_to_requests",
    "wallets expire": "tests/billing/operations/test_wallets.py::test_what_is_over_is_booked_once",
    "workers drain": "tests/engine/cli/test_recorded_orders.py::test_orders_to_workers",
    "workers kill": "tests/engine/cli/test_recorded_orders.py::test_orders_to_workers",
}
# What is typed, in this order, and the action that its last row must tell of. {name} is of Facts.
STEPS = (
    ("tenants create beta", "tenant.create"),
    ("tenants set beta --time-zone Europe/Berlin", "tenant.set"),
    ("tenants terms beta --weight 2", "terms.set"),
    ("tenants close beta", "tenant.close"),
    ("tenants reopen beta", "tenant.reopen"),
    ("projects create --tenant beta research", "project.create"),
    ("cost-centers create --tenant beta 4711", "cost_center.create"),
    ("projects charge-to --tenant beta research 4711", "project.move"),
    ("cost-centers create --tenant beta 4712", "cost_center.create"),
    ("cost-centers close --tenant beta 4711 --move-to 4712", "cost_center.close"),
    ("cost-centers reopen --tenant beta 4711", "cost_center.reopen"),
    ("projects close --tenant beta research", "project.close"),
    ("projects reopen --tenant beta research", "project.reopen"),
    ("chargeback export --tenant beta --out {report}", "usage.export"),
    ("chargeback schedule add --tenant beta", "report_schedule.create"),
    ("chargeback schedule delete --tenant beta {schedule}", "report_schedule.delete"),
    ("chargeback tags declare --tenant beta team", "tag.declare"),
    ("chargeback tags withdraw --tenant beta team", "tag.withdraw"),
    ("users create --tenant beta alice", "user.create"),
    ("users close --tenant beta alice", "user.close"),
    ("users reopen --tenant beta alice", "user.reopen"),
    ("keys create --tenant acme", "key.create"),
    ("keys edit --tenant acme {key} --name search --scope chat", "key.edit"),
    ("keys rotate --tenant acme {key}", "key.rotate"),
    ("keys sign-in-link --tenant acme --user ann {key}", "key.link"),
    ("sessions revoke --tenant acme {session}", "session.end"),
    ("keys revoke --tenant acme {key}", "key.revoke"),
    ("people invite eve@example.com --role admin --tenant beta", "invitation.create"),
    ("people withdraw eve@example.com --tenant beta", "invitation.withdraw"),
    ("people link Otto", "person.link"),
    ("people edit Otto --email o2@example.com", "person.edit"),
    ("people role Otto finance", "membership.set"),
    ("people end-session Olga {person_session}", "session.end"),
    ("people close Otto", "person.close"),
    ("people reopen Otto", "person.reopen"),
    ("tokens create ci --role operator", "token.create"),
    ("tokens revoke ci", "token.revoke"),
    ("plans create gold --weight 2", "plan.create"),
    ("plans set-limit gold --dimension concurrency --limit 4", "limit.set"),
    ("plans assign beta gold", "tenant.assign_plan"),
    ("plans end gold", "plan.end"),
    ("prices import {prices}", "price.import"),
    ("prices import {planned}", "price.import"),
    ("prices withdraw silver 2 --reason typo", "price.withdraw"),
    ("prices close-period --tenant acme --month 1970-01 --force", "period.close"),
    ("prices commit --tenant acme --amount 100USD", "commitment.create"),
    ("prices end-commitment --tenant acme {commitment} --reason why", "commitment.end"),
    ("pools commit --tenant acme --gpu h200 --gpus 2 --rate 2.40USD --days 30", "commitment.create"),
    ("pools end-commitment --tenant acme {gpu_commitment} --reason why --as-never-made", "commitment.end"),
    ("pools costs --gpu h200 --hour 1.10USD", "gpu.cost"),
    ("limits set --tenant beta --scope tenant --dimension concurrency --limit 2", "limit.set"),
    ("limits edit --tenant beta {limit} --limit 3", "limit.set"),
    ("limits end --tenant beta {limit}", "limit.end"),
    ("budgets set --tenant beta --limit 5USD", "budget.set"),
    ("budgets override --tenant beta {budget} --limit 9USD --until 2099-01-01", "budget.override"),
    ("budgets end --tenant beta {budget}", "budget.end"),
    ("wallets grant --tenant beta --amount 5USD --key k1", "wallet.grant"),
    ("wallets alert --tenant beta --thresholds 30", "wallet.alert"),
    ("wallets owed --tenant beta --paid-by invoiced", "wallet.owed"),
    ("wallets claw-back --tenant beta k1 --amount 1USD --key c1 --reason why", "wallet.claw_back"),
    ("wallets pay-out --tenant beta --amount 1USD --key p1 --reason why", "wallet.pay_out"),
    ("wallets grant --tenant beta --amount 1USD --key k2", "wallet.grant"),
    ("wallets void --tenant beta k2 --reason why", "wallet.void"),
    ("alerts targets add --tenant beta --email ops@example.com", "alert_target.add"),
    ("alerts test --tenant beta {target}", "alert.test"),
    ("alerts retry --tenant beta {message}", "alert.retry"),
    ("alerts targets remove --tenant beta {target}", "alert_target.remove"),
    ("usage correct --tenant acme billed --cause c1 --output 9", "request.correct"),
    ("usage refund --tenant acme billed --cause c2", "request.refund"),
    ("usage export --tenant acme --month 1970-01", "usage.export"),
    ("chargeback export --tenant acme --month 1970-01", "usage.export"),
    ("chargeback tags declare team --tenant acme --reason why", "tag.declare"),
    ("chargeback tags withdraw team --tenant acme --reason why", "tag.withdraw"),
    ("chargeback schedule add --tenant acme", "report_schedule.create"),
    ("requests explain --tenant acme billed", "request.explain"),
    ("quarantine accept {accepted} --reason why", "quarantine.accept"),
    ("quarantine dismiss {dismissed} --reason why", "quarantine.dismiss"),
    ("safety set {policy} --reason why --yes --loosen", "policy.set"),
    ("safety set {policy} --tenant beta --project research --reason why --yes", "policy.set"),
    ("safety set --remove --reason why --yes --loosen", "policy.remove"),
    ("noisy accept {finding} --reason why", "noisy.accept"),
    ("noisy dismiss {finding} --reason why", "noisy.dismiss"),
    ("users export --tenant beta alice", "user.export"),
    ("users close --tenant beta alice", "user.close"),
    ("users erase --tenant beta alice --yes", "user.erase"),
    ("tenants close beta", "tenant.close"),
    ("tenants erase beta --yes", "tenant.erase"),
)


def test_every_command_is_known_to_change_something_or_not() -> None:
    """A new command must say here what it leaves in the audit log, or that it only reads."""
    stepped = {named(line) for line, _ in STEPS}
    assert set(COMMANDS) - READS - set(NO_ADMINISTRATION) - set(ELSEWHERE) - stepped == set()
    assert stepped & READS == set()
    assert stepped >= READS_TEXT
    for place in ELSEWHERE.values():
        file, _, name = place.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(), place


def test_each_command_that_changes_something_leaves_a_row(office: CommandsOffice) -> None:
    """INV-28: Who did what is known of all that is enforced, billed or let in. In the end everybody's chains
    are whole, and all that is administered is as they say; one that was deleted with its head is missed, by
    what it told of and by who kept what was printed."""
    for line, action in STEPS:
        if named(line) not in COMMANDS:
            continue
        before = len(office.rows())
        result = office.run(line.format(**office.facts) + (" --json" if _has_json(line) else ""))
        assert result.exit_code == 0, (line, result.output, result.exception)
        added = office.rows()[before:]
        assert [row[0] for row in added][-1:] == [action], (line, added)
        assert {row[1:] for row in added} == {("Ann, ticket 7", "command")}, (line, added)
        _keep(office.facts, line, result)
    verified = office.run("audit verify --json")
    assert verified.exit_code == 0, verified.output
    changes = sum(json.loads(row)["changes"] for row in verified.stdout.splitlines())
    listed = office.run("audit list --json --limit 10000").stdout.splitlines()
    assert changes == len(listed) == len(office.rows())
    kept = office.home / "kept.json"
    kept.write_text(verified.stdout)
    with (
        closing(sqlite3.connect(office.home / "parley.db")) as connection,
        connection,
        unguarded_file(connection),
    ):
        connection.execute("DELETE FROM audit_log WHERE tenant_id = ''")
        connection.execute("DELETE FROM audit_head WHERE tenant_id = ''")
        connection.execute("DELETE FROM audit_state WHERE tenant_id = ''")
    assert "price_version silver/1 was added past the commands" in office.run("audit verify").stderr
    cut = office.run(f"audit verify --earlier {kept}")
    assert (cut.exit_code, "(platform): change" in cut.stderr) == (1, True)


def test_a_command_that_only_reads_leaves_none(office: CommandsOffice) -> None:
    """And neither does one that is refused."""
    before = office.rows()
    for line in (
        "tenants list",
        "keys list --tenant acme",
        "plans list",
        "noisy list --all",
        "noisy show f1",
    ):
        assert office.run(line).exit_code == 0, line
    assert office.run("tenants create acme").exit_code != 0
    assert office.run("keys revoke --tenant acme nothing").exit_code != 0
    assert office.rows() == before


def _has_json(line: str) -> bool:
    return any(parameter.name == "as_json" for parameter in COMMANDS[named(line)].params)


def _keep(facts: dict[str, str], line: str, result: Result) -> None:
    """What later steps name."""
    if line.startswith("keys create"):
        facts["key"] = json.loads(result.stdout)["key"]
    if line.startswith("budgets"):
        facts["budget"] = json.loads(result.stdout)["budget"]
    if line.startswith("chargeback schedule"):
        facts["schedule"] = json.loads(result.stdout)["schedule"]
    if line.startswith("pools commit"):
        facts["gpu_commitment"] = json.loads(result.stdout)["id"]
    if line.startswith("prices commit"):
        facts["commitment"] = json.loads(result.stdout)["id"]
    if line.startswith("alerts test"):
        facts["message"] = json.loads(result.stdout)["message"]
    if line.startswith("alerts targets"):
        facts["target"] = json.loads(result.stdout)["target"]
    if line.startswith(("limits set", "limits edit")):
        facts["limit"] = json.loads(result.stdout)["limit_id"]
