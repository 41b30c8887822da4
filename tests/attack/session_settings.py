"""Settings of sessions: those that texts of values and of the catalogs depend on, and others that a client may have."""

from hypothesis import strategies as st

SETTINGS = (
    {},
    {"datestyle": "SQL, DMY", "extra_float_digits": "0", "intervalstyle": "sql_standard", "timezone": "Asia/Tokyo",
     "bytea_output": "escape", "quote_all_identifiers": "on"},
    {"datestyle": "German", "extra_float_digits": "-10", "intervalstyle": "iso_8601", "timezone": "America/Lima",
     "array_nulls": "off", "transform_null_equals": "on"},
    {"search_path": "", "quote_all_identifiers": "on", "check_function_bodies": "off"},
    {"search_path": "pg_temp, trade, id_gen_convert", "datestyle": "Postgres, YMD",
     "standard_conforming_strings": "off"},
    {"default_transaction_isolation": "repeatable read", "row_security": "off", "client_min_messages": "error"},
    {"default_transaction_isolation": "serializable", "default_transaction_deferrable": "on", "backslash_quote": "off"},
    {"plan_cache_mode": "force_generic_plan", "geqo": "off", "from_collapse_limit": "1"},
    {"enable_hashjoin": "off", "enable_mergejoin": "off", "escape_string_warning": "off", "xmlbinary": "hex"},
)  # fmt: skip
SETTING = st.sampled_from(SETTINGS)
# Those that only a superuser has.
SUPERUSER_SETTINGS = (
    *SETTINGS,
    {"session_replication_role": "replica", "lc_messages": "C"},
    {"zero_damaged_pages": "on", "allow_system_table_mods": "on", "ignore_checksum_failure": "on"},
)
SUPERUSER_SETTING = st.sampled_from(SUPERUSER_SETTINGS)
