"""Names of functions, views and settings that SQL no longer has: none comes back, neither in code nor in text."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

# Each with the name in its place.
RENAMED = {
    "id_collision": "id_random_collision_probability",
    "id_collision_ids": "a formula in docs/family.md",
    "id_gen.fleet": "id_gen.fleet_name",
    "id_gen.max_block": "id_gen.max_block_size",
    "id_gen.max_jump": "id_gen.max_clock_jump",
    "id_gen.worker_ids": "id_gen.worker_id_range",
    "id_gen_accept_clock": "id_gen_clock_accept",
    "id_gen_accept_copy": "id_gen_copy_accept",
    "id_gen_accept_layout": "id_gen_layout_accept",
    "id_gen_end_tests": "id_gen_test_mode_end",
    "id_gen_fleet()": "id_gen_fleet_members()",
    "id_gen_fleet_lower_shard": "id_gen_fleet_lower",
    "id_gen_fleet_restored": "id_gen_fleet_report_restore",
    "id_gen_horizon_blockers": "id_gen_stat_horizon",
    "id_gen_managed.number": "id_gen_managed.configuration",
    "id_gen_managed.take": "id_gen_managed.allocate",
    "id_gen_offsets_grow": "id_gen_offsets_grow_plan",
    "id_gen_plan": "id_gen_recommend",
    "id_gen_reset_reservation": "id_gen_reservation_reset",
    "id_gen_shards": "id_gen_stat_shards",
    "id_gen_shards_reset": "id_gen_shard_reset_all",
    "id_gen_stat_get_backends": "id_gen_stat_backends",
    "id_gen_stat_get_fleet": "id_gen_stat_fleet",
    "id_gen_stat_get_horizon": "id_gen_stat_horizon",
    "id_gen_stat_get_shards": "id_gen_stat_shards",
    "id_gen_stat_get_tickets": "id_gen_stat_tickets",
    "id_gen_stat_get_waits": "id_gen_stat_waits",
    "id_gen_stat_wait_percentile": "a query in docs/operations.md",
    "id_gen_wait_percentile": "a query in docs/operations.md",
    "id_random_bits": "a formula in docs/family.md",
    "id_random_entropy": "a formula in docs/family.md",
    "id_random_ids_for_probability": "a formula in docs/family.md",
    "snowflake_guard": "snowflake_guard_trigger",
    "snowflake_mask": "id_mask",
    "snowflake_observe": "snowflake_advance",
    "snowflake_observe_row": "snowflake_advance_trigger",
    "snowflake_safe_horizon": "snowflake_commit_horizon",
    "snowflake_unmask": "id_unmask",
    "uuid_extract_variant": "uuid_extract_version, NULL for other variants",
    "uuid_mask": "id_mask",
    "uuid_unmask": "id_unmask",
    "uuidv1_timestamp": "uuid_extract_timestamp",
    "uuidv8_namespace": "an expression in docs/family.md",
}
# A string's `\n` is no letter in front of a name.
NAME = re.compile(rf"(?:(?<!\w)|(?<=\\n))(?:{'|'.join(map(re.escape, RENAMED))})(?!\w)")

tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
found = []
for name in tracked.rstrip("\0").split("\0"):
    path = ROOT / name
    if path == Path(__file__) or not path.is_file():
        continue
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        found += [f"{name}:{number}: {old[0]} is now {RENAMED[old[0]]}" for old in NAME.finditer(line)]

if found:
    sys.exit("\n".join(found))
