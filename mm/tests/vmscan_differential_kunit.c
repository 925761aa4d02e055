// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests that the reclaim policies in C and in Rust do the same.
 *
 * Both run on the same inputs, in one kernel. What they have to do is not said
 * here but tested by the suites vmscan_split_order and vmscan_inactive_list; a
 * change that is made to one of the two implementations alone fails here.
 */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <kunit/test-bug.h>
#include <linux/mm.h>

#include "../vmscan_policy.h"
#include "vmscan_kunit.h"

#define MAX_EXISTING 8
#define MAX_CHILDREN 511

struct split_input {
	struct folio *head;
	unsigned int nr_existing;
	/* What the split produces, and how it ends. */
	unsigned int nr_children;
	int ret;
};

struct split_output {
	int ret;
	bool callers_list;
	/* The list from head to tail, as places in split_state.entries[]. */
	unsigned int nr;
	int forward[MAX_EXISTING + MAX_CHILDREN];
	int backward[MAX_EXISTING + MAX_CHILDREN];
};

struct split_state {
	struct split_input in;
	struct list_head list;
	struct list_head *seen_list;
	/* Of these only the lru is used. */
	struct folio entries[MAX_EXISTING + MAX_CHILDREN];
	struct split_output c, rust;
};

static int fake_split(struct folio *folio, struct list_head *list)
{
	struct split_state *s = kunit_get_current_test()->priv;
	unsigned int i;

	s->seen_list = list;
	for (i = 0; i < s->in.nr_children; i++)
		list_add_tail(&s->entries[s->in.nr_existing + i].lru, list);

	return s->in.ret;
}

static int place_of(struct split_state *s, struct list_head *node)
{
	return list_entry(node, struct folio, lru) - s->entries;
}

/* Runs one implementation on s->in. */
static void run_split(struct split_state *s, bool rust,
		      struct split_output *out)
{
	struct list_head *pos;
	unsigned int i;

	memset(out, 0, sizeof(*out));
	INIT_LIST_HEAD(&s->list);
	for (i = 0; i < s->in.nr_existing; i++)
		list_add_tail(&s->entries[i].lru, &s->list);

	out->ret = rust ? split_folio_for_swap_rust(s->in.head, &s->list,
						    pmd_order()) :
			  split_folio_for_swap_c(s->in.head, &s->list);
	out->callers_list = s->seen_list == &s->list;

	list_for_each(pos, &s->list) {
		if (out->nr == ARRAY_SIZE(out->forward))
			break;
		out->forward[out->nr++] = place_of(s, pos);
	}
	i = 0;
	list_for_each_prev(pos, &s->list) {
		if (i == ARRAY_SIZE(out->backward))
			break;
		out->backward[i++] = place_of(s, pos);
	}
}

static void expect_same_split(struct kunit *test)
{
	struct split_state *s = test->priv;

	run_split(s, false, &s->c);
	run_split(s, true, &s->rust);

	if (!memcmp(&s->c, &s->rust, sizeof(s->c)))
		return;

	KUNIT_FAIL_AND_ABORT(test,
			     "order %u, %u existing, %u children, split returns %d: C returns %d and Rust %d, or the lists differ",
			     folio_order(s->in.head), s->in.nr_existing,
			     s->in.nr_children, s->in.ret, s->c.ret,
			     s->rust.ret);
}

/* All that the policy asks about a folio. */
struct head_param {
	const char *desc;
	bool pmd_order;
	bool anon;
	bool swapcache;
};

static const struct head_param head_params[] = {
	{ "anonymous THP", true, true, false },
	{ "anonymous THP in the swap cache", true, true, true },
	{ "THP of a file", true, false, false },
	{ "THP of shmem in the swap cache", true, false, true },
	{ "smaller anonymous folio", false, true, false },
	{ "smaller anonymous folio in the swap cache", false, true, true },
	{ "smaller folio of a file", false, false, false },
};

KUNIT_ARRAY_PARAM_DESC(head, head_params, desc);

static struct split_state *split_state(struct kunit *test)
{
	const struct head_param *param = test->param_value;
	static struct address_space mapping;
	struct split_state *s;
	struct folio *head;

	skip_without_thp(test);

	s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, s);
	head = alloc_head(test, param->pmd_order ? pmd_order() : 2);
	if (param->swapcache)
		folio_set_swapcache(head);
	if (!param->anon)
		head->mapping = &mapping;

	s->in.head = head;
	test->priv = s;
	kunit_activate_static_stub(test, __split_folio_for_swap, fake_split);
	return s;
}

static const int rets[] = { 0, -EAGAIN, -EBUSY, -ENOMEM, -MAX_ERRNO };

static void same_order_for_all_small_lists(struct kunit *test)
{
	struct split_state *s = split_state(test);
	struct split_input *in = &s->in;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rets); i++) {
		in->ret = rets[i];
		for (in->nr_existing = 0; in->nr_existing <= MAX_EXISTING;
		     in->nr_existing++) {
			for (in->nr_children = 0; in->nr_children <= 16;
			     in->nr_children++)
				expect_same_split(test);
			in->nr_children = MAX_CHILDREN;
			expect_same_split(test);
		}
	}
}

static void same_order_for_random_lists(struct kunit *test)
{
	struct split_state *s = split_state(test);
	struct split_input *in = &s->in;
	struct rnd_state rnd;
	unsigned int i;

	kunit_info(test, "seed %u", SEED);
	prandom_seed_state(&rnd, SEED);

	for (i = 0; i < 2000; i++) {
		in->nr_existing = prandom_u32_state(&rnd) % (MAX_EXISTING + 1);
		in->nr_children = prandom_u32_state(&rnd) % (MAX_CHILDREN + 1);
		in->ret = rets[prandom_u32_state(&rnd) % ARRAY_SIZE(rets)];
		expect_same_split(test);
	}
}

static void expect_same_decision(struct kunit *test, unsigned long refaults,
				 unsigned long snapshot, unsigned long inactive,
				 unsigned long active)
{
	bool c, rust;

	c = inactive_is_low_c(refaults, snapshot, inactive, active);
	rust = inactive_is_low_rust(refaults, snapshot, inactive, active);
	if (c == rust)
		return;

	KUNIT_FAIL_AND_ABORT(test,
			     "refaults %lu, snapshot %lu, inactive %lu, active %lu: C says %d and Rust %d",
			     refaults, snapshot, inactive, active, c, rust);
}

/* Small sizes, sizes around steps of the ratio, and the largest ones. */
static unsigned long grid_point(unsigned int i)
{
	const unsigned long quarter_gb = 1UL << (28 - PAGE_SHIFT);

	if (i < 32)
		return i;
	if (i < 64)
		return ULONG_MAX - (i - 32);

	i -= 64;
	return (i / 3 + 1) * quarter_gb + i % 3 - 1;
}

static void same_decision_on_dense_grid(struct kunit *test)
{
	static const unsigned long refaults[] = { 0, 1, ULONG_MAX };
	const unsigned int nr = 64 + 3 * 80;
	unsigned int i, j, k;

	for (i = 0; i < nr; i++)
		for (j = 0; j < nr; j++)
			for (k = 0; k < ARRAY_SIZE(refaults); k++)
				expect_same_decision(test, refaults[k], 1,
						     grid_point(i),
						     grid_point(j));
}

static void same_decision_on_random_sizes(struct kunit *test)
{
	struct rnd_state rnd;
	unsigned int i;

	kunit_info(test, "seed %u", SEED);
	prandom_seed_state(&rnd, SEED);

	for (i = 0; i < 200000; i++) {
		unsigned long total = random_ulong(&rnd);
		unsigned long gb = total >> (30 - PAGE_SHIFT);
		unsigned long inactive = random_ulong(&rnd);
		unsigned long refaults = prandom_u32_state(&rnd) % 8;

		/* Half of them within a few pages of the threshold. */
		if (i % 2)
			inactive = total / (int_sqrt(10 * gb) + 1) - 3 +
				   prandom_u32_state(&rnd) % 7;

		expect_same_decision(test, refaults / 7, 0, inactive,
				     total - inactive);
	}
}

static struct kunit_case differential_cases[] = {
	KUNIT_CASE_PARAM(same_order_for_all_small_lists, head_gen_params),
	KUNIT_CASE_PARAM(same_order_for_random_lists, head_gen_params),
	KUNIT_CASE(same_decision_on_dense_grid),
	KUNIT_CASE(same_decision_on_random_sizes),
	{}
};

static struct kunit_suite differential_suite = {
	.name = "vmscan_differential",
	.test_cases = differential_cases,
};

kunit_test_suite(differential_suite);
