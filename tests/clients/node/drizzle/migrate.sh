# shellcheck shell=bash
# Makes the migrations of schema.ts, the extension's before them, and applies both.
set -euo pipefail

npx drizzle-kit generate --custom --name id_gen
echo 'CREATE EXTENSION IF NOT EXISTS id_gen;' >drizzle/0000_id_gen.sql
npx drizzle-kit generate --name shop
npx drizzle-kit migrate
