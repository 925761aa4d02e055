// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of inactive_list_is_low(), the decision to deactivate folios.
 *
 * inactive_is_low(), the rule, is held against the table in its comment and
 * against a reference. inactive_list_is_low(), which finds the numbers for it,
 * is run with a stub that answers its reads from an array and counts them.
 */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <kunit/test-bug.h>
#include <linux/mmzone.h>
#include <linux/overflow.h>

#include "../vmscan_policy.h"
#include "vmscan_kunit.h"

#define MB_PAGES (1UL << (20 - PAGE_SHIFT))
#define GB_PAGES (1UL << (30 - PAGE_SHIFT))

/* inactive_is_low() if no refault decides. */
static bool size_is_low(unsigned long inactive, unsigned long active)
{
	return inactive_is_low(0, 0, inactive, active);
}

/* The same for the share of one list in the total of both. */
static bool share_is_low(unsigned long inactive, unsigned long total)
{
	return size_is_low(inactive, total - inactive);
}

/* The table in the comment above inactive_is_low(). */
struct ratio_param {
	const char *desc;
	unsigned long total_mb;
	unsigned long ratio;
	unsigned long max_inactive_mb;
};

static const struct ratio_param ratio_params[] = {
	{ "10MB", 10, 1, 5 },
	{ "100MB", 100, 1, 50 },
	{ "1GB", 1024, 3, 250 },
	{ "10GB", 10 * 1024, 10, 920 },
	{ "100GB", 100 * 1024, 31, 3 * 1024 },
	{ "1TB", 1024 * 1024, 101, 10 * 1024 },
	{ "10TB", 10 * 1024 * 1024, 320, 32 * 1024 },
};

KUNIT_ARRAY_PARAM_DESC(ratio, ratio_params, desc);

/* The inactive list is large enough from 1 / (ratio + 1) of the total on. */
static void expect_ratio(struct kunit *test, unsigned long total,
			 unsigned long ratio)
{
	unsigned long enough = DIV_ROUND_UP(total, ratio + 1);

	KUNIT_EXPECT_TRUE_MSG(test, share_is_low(enough - 1, total),
			      "%lu of %lu", enough - 1, total);
	KUNIT_EXPECT_FALSE_MSG(test, share_is_low(enough, total),
			       "%lu of %lu", enough, total);
}

static void ratio_is_that_of_the_table(struct kunit *test)
{
	const struct ratio_param *param = test->param_value;

	expect_ratio(test, param->total_mb * MB_PAGES, param->ratio);
}

/* To about 5%, as the last column of the table is rounded. */
static void max_inactive_is_that_of_the_table(struct kunit *test)
{
	const struct ratio_param *param = test->param_value;
	unsigned long total = param->total_mb * MB_PAGES;
	unsigned long max = param->max_inactive_mb * MB_PAGES;
	unsigned long margin = max / 20;

	KUNIT_EXPECT_TRUE(test, share_is_low(max - margin, total));
	KUNIT_EXPECT_FALSE(test, share_is_low(max + margin, total));
}

/* floor(sqrt(10 * GB)), or 1 below 1GB; spelled out, not computed. */
static void ratio_steps_at_whole_gigabytes(struct kunit *test)
{
	static const unsigned long ratio[] = {
		1, 3, 4, 5, 6, 7, 7, 8, 8, 9, 10, 10, 10, 11, 11, 12, 12,
	};
	unsigned int gb;

	for (gb = 1; gb < ARRAY_SIZE(ratio); gb++) {
		expect_ratio(test, gb * GB_PAGES - 1, ratio[gb - 1]);
		expect_ratio(test, gb * GB_PAGES, ratio[gb]);
	}
}

static void empty_lists_are_not_low(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, size_is_low(0, 0));
	KUNIT_EXPECT_FALSE(test, size_is_low(1, 0));
	KUNIT_EXPECT_TRUE(test, size_is_low(0, 1));
}

/*
 * No list is that long. This is what unsigned long arithmetic, which wraps,
 * makes of the sum and of the product, on 32 and on 64 bit.
 */
struct extreme_param {
	const char *desc;
	unsigned long inactive;
	unsigned long active;
	bool low;
};

#define HALF (ULONG_MAX / 2 + 1)

static const struct extreme_param extreme_params[] = {
	{ "0 to ULONG_MAX", 0, ULONG_MAX, true },
	{ "ULONG_MAX to 0", ULONG_MAX, 0, false },
	{ "sum wraps to 0, few inactive", 1, ULONG_MAX, true },
	{ "sum wraps to 0, few active", ULONG_MAX, 1, false },
	{ "sum wraps to 0, halves", HALF, HALF, false },
	{ "sum wraps to 3, so the ratio is 1", HALF + 1, HALF + 2, true },
	{ "product of ULONG_MAX wraps", ULONG_MAX, ULONG_MAX, true },
};

KUNIT_ARRAY_PARAM_DESC(extreme, extreme_params, desc);

static void extreme_sizes_wrap(struct kunit *test)
{
	const struct extreme_param *param = test->param_value;

	KUNIT_EXPECT_EQ(test, size_is_low(param->inactive, param->active),
			param->low);
}

/* The largest root with root * root <= @square, found bit by bit. */
static unsigned long reference_sqrt(u64 square)
{
	unsigned long root = 0, bit;

	for (bit = 1UL << 26; bit; bit >>= 1) {
		if ((u64)(root + bit) * (root + bit) <= square)
			root += bit;
	}
	return root;
}

static unsigned long reference_ratio(unsigned long total)
{
	unsigned long ratio = reference_sqrt((u64)(total / GB_PAGES) * 10);

	return max(ratio, 1UL);
}

static bool reference_is_low(unsigned long refaults, unsigned long snapshot,
			     unsigned long inactive, unsigned long active)
{
	unsigned long total = wrapping_add(unsigned long, inactive, active);
	unsigned long target = wrapping_mul(unsigned long, inactive,
					    reference_ratio(total));

	return refaults != snapshot || target < active;
}

/*
 * With a total of ULONG_MAX, the product is -(active + 1) * ratio. It wraps to
 * less than the ratio, or to almost ULONG_MAX with one more active page.
 */
static void product_wraps_around_active(struct kunit *test)
{
	unsigned long ratio = reference_ratio(ULONG_MAX);
	unsigned long active = ULONG_MAX / ratio - 1;

	KUNIT_EXPECT_TRUE(test, share_is_low(ULONG_MAX - active, ULONG_MAX));
	active++;
	KUNIT_EXPECT_FALSE(test, share_is_low(ULONG_MAX - active, ULONG_MAX));
}

struct refault_param {
	const char *desc;
	unsigned long refaults;
	unsigned long snapshot;
};

static const struct refault_param refault_params[] = {
	{ "first refault", 1, 0 },
	{ "up by one", 1001, 1000 },
	{ "down by one", 999, 1000 },
	{ "down to zero", 0, 1000 },
	{ "up across the wrap", 0, ULONG_MAX },
	{ "down across the wrap", ULONG_MAX, 0 },
	{ "top bit alone", HALF, 0 },
};

KUNIT_ARRAY_PARAM_DESC(refault, refault_params, desc);

/* Even if there is nothing to deactivate. */
static void refault_makes_any_list_low(struct kunit *test)
{
	const struct refault_param *param = test->param_value;
	static const unsigned long sizes[] = { 0, 1, 1000, ULONG_MAX };
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (j = 0; j < ARRAY_SIZE(sizes); j++)
			KUNIT_EXPECT_TRUE(test,
					  inactive_is_low(param->refaults,
							  param->snapshot,
							  sizes[i], sizes[j]));
	}
}

static void equal_refaults_leave_it_to_the_sizes(struct kunit *test)
{
	static const unsigned long equal[] = { 0, 1, 1000, HALF, ULONG_MAX };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(equal); i++) {
		KUNIT_EXPECT_TRUE(test, inactive_is_low(equal[i], equal[i],
							1, 2));
		KUNIT_EXPECT_FALSE(test, inactive_is_low(equal[i], equal[i],
							 2, 2));
	}
}

static void expect_reference(struct kunit *test, unsigned long refaults,
			     unsigned long snapshot, unsigned long inactive,
			     unsigned long active)
{
	bool low = inactive_is_low(refaults, snapshot, inactive, active);

	if (low == reference_is_low(refaults, snapshot, inactive, active))
		return;

	KUNIT_FAIL_AND_ABORT(test,
			     "refaults %lu, snapshot %lu, inactive %lu, active %lu: %d",
			     refaults, snapshot, inactive, active, low);
}

/* The smallest lists, and both sides of every quarter of a gigabyte. */
static unsigned long grid_point(unsigned int i)
{
	if (i < 40)
		return i;

	i -= 40;
	return (i / 3 + 1) * (GB_PAGES / 4) + i % 3 - 1;
}

static void dense_grid_matches_reference(struct kunit *test)
{
	const unsigned int nr = 40 + 3 * 64;
	unsigned int i, j;

	for (i = 0; i < nr; i++) {
		for (j = 0; j < nr; j++) {
			expect_reference(test, 5, 5, grid_point(i),
					 grid_point(j));
			expect_reference(test, 6, 5, grid_point(i),
					 grid_point(j));
		}
	}
}

static void random_sizes_match_reference(struct kunit *test)
{
	struct rnd_state rnd;
	unsigned int i;

	kunit_info(test, "seed %u", SEED);
	prandom_seed_state(&rnd, SEED);

	for (i = 0; i < 200000; i++) {
		unsigned long snapshot = random_ulong(&rnd);
		unsigned long refaults = snapshot;
		unsigned long inactive = random_ulong(&rnd);
		unsigned long active = random_ulong(&rnd);

		/* Most must not be decided by refaults, */
		if (i % 8 == 0)
			refaults = random_ulong(&rnd);
		/* and half are to be within three pages of the threshold. */
		if (i % 2) {
			unsigned long total = active;

			inactive = total / (reference_ratio(total) + 1) - 3;
			inactive += prandom_u32_state(&rnd) % 7;
			active = total - inactive;
		}

		expect_reference(test, refaults, snapshot, inactive, active);
	}
}

struct state_test {
	struct lruvec *lruvec;
	unsigned long value[NR_VM_NODE_STAT_ITEMS];
	unsigned int reads[NR_VM_NODE_STAT_ITEMS];
};

static unsigned long fake_state(struct lruvec *lruvec, enum node_stat_item item)
{
	struct kunit *test = kunit_get_current_test();
	struct state_test *t = test->priv;

	KUNIT_EXPECT_PTR_EQ(test, lruvec, t->lruvec);
	t->reads[item]++;
	return t->value[item];
}

static struct state_test *state_test(struct kunit *test)
{
	struct state_test *t;

	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	t->lruvec = kunit_kzalloc(test, sizeof(*t->lruvec), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t->lruvec);

	test->priv = t;
	kunit_activate_static_stub(test, inactive_list_state, fake_state);
	return t;
}

struct type_param {
	const char *desc;
	enum lru_list lru;
	enum node_stat_item inactive;
	enum node_stat_item active;
	enum node_stat_item refaults;
	int snapshot;
};

static const struct type_param type_params[] = {
	{
		"anon", LRU_INACTIVE_ANON, NR_INACTIVE_ANON, NR_ACTIVE_ANON,
		WORKINGSET_ACTIVATE_ANON, WORKINGSET_ANON,
	},
	{
		"file", LRU_INACTIVE_FILE, NR_INACTIVE_FILE, NR_ACTIVE_FILE,
		WORKINGSET_ACTIVATE_FILE, WORKINGSET_FILE,
	},
};

KUNIT_ARRAY_PARAM_DESC(type, type_params, desc);

/* Each item is to be read so many times, and no other at all. */
static void expect_reads(struct kunit *test, unsigned int refaults,
			 unsigned int sizes)
{
	const struct type_param *param = test->param_value;
	struct state_test *t = test->priv;
	int i;

	for (i = 0; i < NR_VM_NODE_STAT_ITEMS; i++) {
		unsigned int reads = 0;

		if (i == param->refaults)
			reads = refaults;
		else if (i == param->inactive || i == param->active)
			reads = sizes;
		KUNIT_EXPECT_EQ_MSG(test, t->reads[i], reads, "item %d", i);
	}
	memset(t->reads, 0, sizeof(t->reads));
}

static bool list_is_low(struct kunit *test, bool refault_aware)
{
	const struct type_param *param = test->param_value;
	struct state_test *t = test->priv;

	return inactive_list_is_low(t->lruvec, param->lru, refault_aware);
}

static void sizes_of_own_type_decide(struct kunit *test)
{
	const struct type_param *param = test->param_value;
	struct state_test *t = state_test(test);

	t->value[param->refaults] = 1000;
	t->lruvec->refaults[param->snapshot] = 1000;

	t->value[param->inactive] = 50;
	t->value[param->active] = 51;
	KUNIT_EXPECT_TRUE(test, list_is_low(test, true));
	expect_reads(test, 1, 1);

	t->value[param->inactive] = 51;
	KUNIT_EXPECT_FALSE(test, list_is_low(test, true));
	expect_reads(test, 1, 1);
}

static void sizes_are_not_read_after_a_refault(struct kunit *test)
{
	const struct type_param *param = test->param_value;
	struct state_test *t = state_test(test);

	t->value[param->refaults] = 1001;
	t->lruvec->refaults[param->snapshot] = 1000;

	t->value[param->inactive] = 51;
	KUNIT_EXPECT_TRUE(test, list_is_low(test, true));
	expect_reads(test, 1, 0);
}

static void refaults_are_not_read_unless_asked_for(struct kunit *test)
{
	const struct type_param *param = test->param_value;
	struct state_test *t = state_test(test);

	t->value[param->refaults] = 1001;
	t->lruvec->refaults[param->snapshot] = 1000;

	t->value[param->inactive] = 51;
	t->value[param->active] = 51;
	KUNIT_EXPECT_FALSE(test, list_is_low(test, false));
	expect_reads(test, 0, 1);

	t->value[param->active] = 52;
	KUNIT_EXPECT_TRUE(test, list_is_low(test, false));
	expect_reads(test, 0, 1);
}

static void snapshot_of_own_type_is_compared(struct kunit *test)
{
	const struct type_param *param = test->param_value;
	struct state_test *t = state_test(test);

	t->lruvec->refaults[param->snapshot] = 1000;
	t->lruvec->refaults[!param->snapshot] = 2000;

	t->value[param->refaults] = 1000;
	KUNIT_EXPECT_FALSE(test, list_is_low(test, true));
	t->value[param->refaults] = 2000;
	KUNIT_EXPECT_TRUE(test, list_is_low(test, true));
}

static struct kunit_case inactive_list_cases[] = {
	KUNIT_CASE_PARAM(ratio_is_that_of_the_table, ratio_gen_params),
	KUNIT_CASE_PARAM(max_inactive_is_that_of_the_table, ratio_gen_params),
	KUNIT_CASE(ratio_steps_at_whole_gigabytes),
	KUNIT_CASE(empty_lists_are_not_low),
	KUNIT_CASE_PARAM(extreme_sizes_wrap, extreme_gen_params),
	KUNIT_CASE(product_wraps_around_active),
	KUNIT_CASE_PARAM(refault_makes_any_list_low, refault_gen_params),
	KUNIT_CASE(equal_refaults_leave_it_to_the_sizes),
	KUNIT_CASE(dense_grid_matches_reference),
	KUNIT_CASE(random_sizes_match_reference),
	KUNIT_CASE_PARAM(sizes_of_own_type_decide, type_gen_params),
	KUNIT_CASE_PARAM(sizes_are_not_read_after_a_refault, type_gen_params),
	KUNIT_CASE_PARAM(refaults_are_not_read_unless_asked_for,
			 type_gen_params),
	KUNIT_CASE_PARAM(snapshot_of_own_type_is_compared, type_gen_params),
	{}
};

static struct kunit_suite inactive_list_suite = {
	.name = "vmscan_inactive_list",
	.test_cases = inactive_list_cases,
};

kunit_test_suite(inactive_list_suite);
