/* Functions that do nothing: what PostgreSQL's own call costs, to measure ours against. */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(empty_bigint);
Datum
empty_bigint(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(0);
}

/* Returns the row it is declared with, all zero, as simply as the manual shows it. */
PG_FUNCTION_INFO_V1(empty_row);
Datum
empty_row(PG_FUNCTION_ARGS)
{
	TupleDesc	row_type;
	Datum		values[4] = {0};
	bool		nulls[4] = {false};

	if (get_call_result_type(fcinfo, NULL, &row_type) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "not declared to return a row");
	row_type = BlessTupleDesc(row_type);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(row_type, values, nulls)));
}
