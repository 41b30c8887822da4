/* Functions that do nothing: what PostgreSQL's own call costs, to measure ours against. */
#include "postgres.h"

#include <time.h>

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/uuid.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(empty_bigint);
Datum
empty_bigint(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(0);
}

/* Returns a uuid that is all zero, in memory of its own, as every function that returns a uuid has to. */
PG_FUNCTION_INFO_V1(empty_uuid);
Datum
empty_uuid(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *uuid = palloc(sizeof(pg_uuid_t));

	memset(uuid, 0, sizeof(pg_uuid_t));
	PG_RETURN_UUID_P(uuid);
}

/* Reads the clock, too: what is left for a UUIDv7 above this is its randomness and its bits. */
PG_FUNCTION_INFO_V1(clock_uuid);
Datum
clock_uuid(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *uuid;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	uuid = palloc(sizeof(pg_uuid_t));
	memcpy(uuid, &now, sizeof(pg_uuid_t));
	PG_RETURN_UUID_P(uuid);
}

/* Returns a text of so many characters as its last argument says, likewise. */
PG_FUNCTION_INFO_V1(empty_text);
Datum
empty_text(PG_FUNCTION_ARGS)
{
	int32		length = PG_GETARG_INT32(PG_NARGS() - 1);
	text	   *result = palloc(VARHDRSZ + length);

	SET_VARSIZE(result, VARHDRSZ + length);
	memset(VARDATA(result), '0', length);
	PG_RETURN_TEXT_P(result);
}

/* Returns the row it is declared with, all zero; the row type is looked up once for each place that calls. */
PG_FUNCTION_INFO_V1(empty_row);
Datum
empty_row(PG_FUNCTION_ARGS)
{
	Datum		values[4] = {0};
	bool		nulls[4] = {false};

	if (fcinfo->flinfo->fn_extra == NULL)
	{
		MemoryContext previous = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
		TupleDesc	row_type;

		if (get_call_result_type(fcinfo, NULL, &row_type) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "not declared to return a row");
		fcinfo->flinfo->fn_extra = BlessTupleDesc(row_type);
		MemoryContextSwitchTo(previous);
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(fcinfo->flinfo->fn_extra, values, nulls)));
}
