/* Stands for a library of another version: it initializes id_gen's shared memory, or changes the version in it. */
#include "postgres.h"

#include "access/twophase.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/dsm_registry.h"

PG_MODULE_MAGIC;

/* The size that every version asks for, so that PostgreSQL takes them for the same shared memory. */
#define STATE_BYTES (8192 + 1024 * 128 + 72 * 1024)
#define SLOT_BYTES 256
#define PREPARED_BYTES 24
#define SHARD_BYTES (768 * 1024)

static Size
size(void)
{
	return STATE_BYTES + SLOT_BYTES * MaxBackends + PREPARED_BYTES * (max_prepared_xacts + MaxBackends) +
		SHARD_BYTES;
}

#if PG_VERSION_NUM >= 190000
#define ARGUMENT , void *argument
#define NO_ARGUMENT , NULL
#else
#define ARGUMENT
#define NO_ARGUMENT
#endif

static void
all_zero(void *shared ARGUMENT)
{
	memset(shared, 0, size());
}

/* Adds to the version that the shared memory begins with. If it is new, it has version 0 and is empty. */
PG_FUNCTION_INFO_V1(add_to_version);
Datum
add_to_version(PG_FUNCTION_ARGS)
{
	bool		found;
	uint64	   *version = GetNamedDSMSegment("id_gen", size(), all_zero, &found NO_ARGUMENT);

	*version += PG_GETARG_INT64(0);
	PG_RETURN_BOOL(found);
}
