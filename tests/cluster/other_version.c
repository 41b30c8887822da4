/* A library of another version, as far as id_gen can tell: it makes id_gen's shared segment, or changes its version. */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/dsm_registry.h"

PG_MODULE_MAGIC;

/* The room that every version asks for, so that PostgreSQL takes them for the same segment. */
#define HEADER_ROOM 8192
#define SLOT_ROOM 256

static void
all_zero(void *segment)
{
	memset(segment, 0, HEADER_ROOM + SLOT_ROOM * MaxBackends);
}

/* Adds to the version that the segment begins with. One that is new is of version 0, and holds nothing. */
PG_FUNCTION_INFO_V1(add_to_version);
Datum
add_to_version(PG_FUNCTION_ARGS)
{
	bool		found;
	uint64	   *version = GetNamedDSMSegment("id_gen", HEADER_ROOM + SLOT_ROOM * MaxBackends, all_zero, &found);

	*version += PG_GETARG_INT64(0);
	PG_RETURN_BOOL(found);
}
