// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of split_folio_for_swap(), the order in which reclaim meets the
 * pages of a THP that it had to split.
 *
 * A stub stands in for the split. It queues as many fake children as a case
 * asks for, in ascending order like the real split, and returns what the case
 * asks for. Of a fake, only the lru is ever touched; the head is a real folio.
 * The list that comes out has to equal an array of the entries in the order
 * that they must have. The thp_ cases use no stub: they map, isolate and split
 * a real THP.
 */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <kunit/test-bug.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pagemap.h>
#include <linux/swap.h>
#include <linux/uaccess.h>
#include <linux/vmstat.h>

#include "../internal.h"
#include "../vmscan_policy.h"
#include "vmscan_kunit.h"

#define MAX_EXISTING 8
#define MAX_CHILDREN 511

struct split_test {
	struct folio *head;
	/* Set if @head is not one whose children are reordered. */
	bool plain;

	/* What the stub does, */
	unsigned int nr_children;
	int ret;
	/* and what it was called with. The list may be dead by now. */
	unsigned int calls;
	struct folio *seen_folio;
	struct list_head *seen_list;

	/* The list that reclaim is working on, and what it has to hold. */
	struct list_head list;
	struct folio *model[MAX_EXISTING + MAX_CHILDREN];
	unsigned int nr_model;

	/* The fakes, in the order in which they are queued. */
	struct folio existing[MAX_EXISTING];
	struct folio children[MAX_CHILDREN];
};

static int fake_split(struct folio *folio, struct list_head *list)
{
	struct split_test *t = kunit_get_current_test()->priv;
	unsigned int i;

	t->calls++;
	t->seen_folio = folio;
	t->seen_list = list;

	for (i = 0; i < t->nr_children; i++)
		list_add_tail(&t->children[i].lru, list);

	return t->ret;
}

/* Run split_folio_for_swap() with so many existing and new entries. */
static int run_split(struct split_test *t, unsigned int nr_existing,
		     unsigned int nr_children, int ret)
{
	bool reversed = IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE) &&
			!t->plain && !ret;
	unsigned int i;

	t->calls = 0;
	t->nr_children = nr_children;
	t->ret = ret;

	INIT_LIST_HEAD(&t->list);
	t->nr_model = 0;
	for (i = 0; i < nr_existing; i++) {
		list_add_tail(&t->existing[i].lru, &t->list);
		t->model[t->nr_model++] = &t->existing[i];
	}
	for (i = 0; i < nr_children; i++) {
		unsigned int child = reversed ? nr_children - 1 - i : i;

		t->model[t->nr_model++] = &t->children[child];
	}

	return split_folio_for_swap(t->head, &t->list);
}

static bool walk_is_model(struct split_test *t, bool forward)
{
	struct list_head *pos = &t->list;
	unsigned int i;

	for (i = 0; i < t->nr_model; i++) {
		unsigned int place = forward ? i : t->nr_model - 1 - i;

		pos = forward ? pos->next : pos->prev;
		if (pos != &t->model[place]->lru)
			return false;
	}

	return (forward ? pos->next : pos->prev) == &t->list;
}

/* Everything that holds for any split, for cases that do many of them. */
static bool outcome_is_model(struct split_test *t, int ret)
{
	return ret == t->ret && t->calls == 1 && t->seen_folio == t->head &&
	       folio_test_locked(t->head) && t->head->lru.next == LIST_POISON1 &&
	       walk_is_model(t, true) && walk_is_model(t, false);
}

static void alloc_split_test(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct split_test), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, test->priv);
	kunit_activate_static_stub(test, __split_folio_for_swap, fake_split);
}

/* A test of an anonymous PMD-sized folio that is not in the swap cache. */
static struct split_test *pmd_split_test(struct kunit *test)
{
	struct split_test *t;

	alloc_split_test(test);
	t = test->priv;
	t->head = alloc_head(test, pmd_order());
	return t;
}

struct int_param {
	const char *desc;
	int val;
};

static const struct int_param nr_children_params[] = {
	{ "no child", 0 },
	{ "1 child", 1 },
	{ "2 children", 2 },
	{ "3 children", 3 },
	{ "15 children", 15 },
	{ "511 children", 511 },
};

KUNIT_ARRAY_PARAM_DESC(nr_children, nr_children_params, desc);

/* Takes the folios off the list the way shrink_folio_list() does. */
static void children_are_met_ascending(struct kunit *test)
{
	const struct int_param *nr = test->param_value;
	struct split_test *t;
	unsigned int i;

	skip_without_thp(test);
	t = pmd_split_test(test);

	KUNIT_EXPECT_EQ(test, run_split(t, 0, nr->val, 0), 0);

	for (i = 0; i < nr->val; i++) {
		struct folio *child = lru_to_folio(&t->list);

		KUNIT_ASSERT_PTR_EQ(test, child, &t->children[i]);
		list_del(&child->lru);
	}
	KUNIT_EXPECT_TRUE(test, list_empty(&t->list));
}

/* On a list, whichever, its lru would have changed. */
static void head_stays_locked_and_off_the_list(struct kunit *test)
{
	const struct int_param *nr = test->param_value;
	static const int rets[] = { 0, -EAGAIN };
	struct split_test *t = pmd_split_test(test);
	struct list_head lru = t->head->lru;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rets); i++) {
		run_split(t, 2, nr->val, rets[i]);

		KUNIT_EXPECT_TRUE(test, folio_test_locked(t->head));
		KUNIT_EXPECT_MEMEQ(test, &t->head->lru, &lru, sizeof(lru));
	}
}

static void existing_entries_keep_their_place(struct kunit *test)
{
	const struct int_param *nr = test->param_value;
	struct split_test *t = pmd_split_test(test);
	struct list_head *pos = &t->list;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, run_split(t, MAX_EXISTING, nr->val, 0), 0);

	for (i = 0; i < MAX_EXISTING; i++) {
		pos = pos->next;
		KUNIT_ASSERT_PTR_EQ(test, pos, &t->existing[i].lru);
	}
	/* No child is anywhere but behind them. */
	for (i = 0; i < nr->val; i++)
		pos = pos->next;
	KUNIT_EXPECT_PTR_EQ(test, pos->next, &t->list);
}

static void forward_and_backward_walks_agree(struct kunit *test)
{
	const struct int_param *nr = test->param_value;
	struct split_test *t = pmd_split_test(test);
	struct list_head *pos = &t->list;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, run_split(t, 3, nr->val, 0), 0);

	/* Once around. */
	for (i = 0; i <= t->nr_model; i++) {
		KUNIT_ASSERT_PTR_EQ(test, pos->next->prev, pos);
		pos = pos->next;
	}
	KUNIT_EXPECT_PTR_EQ(test, pos, &t->list);
}

/* The split has to get the caller's list, and its order has to stay. */
static void expect_plain_path(struct kunit *test, struct split_test *t)
{
	t->plain = true;

	KUNIT_EXPECT_EQ(test, run_split(t, 2, 15, 0), 0);
	KUNIT_EXPECT_PTR_EQ(test, t->seen_list, &t->list);
	KUNIT_EXPECT_TRUE(test, outcome_is_model(t, 0));

	KUNIT_EXPECT_EQ(test, run_split(t, 2, 7, -EBUSY), -EBUSY);
	KUNIT_EXPECT_PTR_EQ(test, t->seen_list, &t->list);
	KUNIT_EXPECT_TRUE(test, outcome_is_model(t, -EBUSY));
}

static void file_folio_takes_plain_path(struct kunit *test)
{
	static struct address_space mapping;
	struct split_test *t = pmd_split_test(test);

	t->head->mapping = &mapping;
	folio_clear_swapbacked(t->head);
	expect_plain_path(test, t);
}

static void swap_cache_folio_takes_plain_path(struct kunit *test)
{
	struct split_test *t = pmd_split_test(test);

	folio_set_swapcache(t->head);
	if (!folio_test_swapcache(t->head))
		kunit_skip(test, "needs CONFIG_SWAP");
	expect_plain_path(test, t);
}

static const void *other_order_gen_params(struct kunit *test, const void *prev,
					  char *desc)
{
	/* A parameter is the order plus one, since NULL would end the list. */
	unsigned long next = (unsigned long)prev + 1;

	if (next - 1 == pmd_order())
		next++;
	if (next - 1 > MAX_PAGE_ORDER)
		return NULL;

	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "order %lu", next - 1);
	return (void *)next;
}

static void other_order_takes_plain_path(struct kunit *test)
{
	struct split_test *t;

	alloc_split_test(test);
	t = test->priv;
	t->head = alloc_head(test, (unsigned long)test->param_value - 1);
	expect_plain_path(test, t);
}

static const struct int_param split_error_params[] = {
	{ "-EAGAIN", -EAGAIN },
	{ "-EBUSY", -EBUSY },
	{ "-ENOMEM", -ENOMEM },
};

KUNIT_ARRAY_PARAM_DESC(split_error, split_error_params, desc);

/* How many children are out when the split fails. */
static const unsigned int nr_out[] = {
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, MAX_CHILDREN,
};

static void error_of_split_is_returned(struct kunit *test)
{
	const struct int_param *error = test->param_value;
	struct split_test *t = pmd_split_test(test);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(nr_out); i++)
		KUNIT_EXPECT_EQ(test, run_split(t, 3, nr_out[i], error->val),
				error->val);
}

static void failure_keeps_order_of_split(struct kunit *test)
{
	const struct int_param *error = test->param_value;
	struct split_test *t = pmd_split_test(test);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(nr_out); i++) {
		run_split(t, 3, nr_out[i], error->val);

		KUNIT_ASSERT_TRUE_MSG(test, walk_is_model(t, true),
				      "with %u children out", nr_out[i]);
		KUNIT_ASSERT_TRUE_MSG(test, walk_is_model(t, false),
				      "with %u children out", nr_out[i]);
	}
}

/* The private list is gone by then, so no node may point to it. */
static void failure_leaves_private_list_empty(struct kunit *test)
{
	const struct int_param *error = test->param_value;
	struct split_test *t;
	unsigned int i, j;

	skip_without_thp(test);
	t = pmd_split_test(test);

	for (i = 0; i < ARRAY_SIZE(nr_out); i++) {
		run_split(t, 3, nr_out[i], error->val);

		KUNIT_ASSERT_PTR_NE(test, t->seen_list, &t->list);
		for (j = 0; j < nr_out[i]; j++) {
			struct list_head *lru = &t->children[j].lru;

			KUNIT_ASSERT_PTR_NE(test, lru->next, t->seen_list);
			KUNIT_ASSERT_PTR_NE(test, lru->prev, t->seen_list);
		}
	}
}

static void every_small_list_matches_model(struct kunit *test)
{
	struct split_test *t = pmd_split_test(test);
	static const int rets[] = { 0, -EAGAIN, -EBUSY, -ENOMEM };
	unsigned int existing, children, i;

	for (existing = 0; existing <= 4; existing++) {
		for (children = 0; children <= 6; children++) {
			for (i = 0; i < ARRAY_SIZE(rets); i++) {
				int ret = run_split(t, existing, children,
						    rets[i]);

				KUNIT_ASSERT_TRUE_MSG(test,
						      outcome_is_model(t, ret),
						      "%u existing, %u children, error %d",
						      existing, children,
						      rets[i]);
			}
		}
	}
}

static void random_lists_match_model(struct kunit *test)
{
	struct split_test *t = pmd_split_test(test);
	struct rnd_state rnd;
	unsigned int i;

	kunit_info(test, "seed %u", SEED);
	prandom_seed_state(&rnd, SEED);

	for (i = 0; i < 10000; i++) {
		unsigned int existing, children;
		int ret, err;

		existing = prandom_u32_state(&rnd) % (MAX_EXISTING + 1);
		/* Short lists more often than long ones. */
		children = prandom_u32_state(&rnd) % (MAX_CHILDREN + 1);
		children >>= prandom_u32_state(&rnd) % 10;
		ret = prandom_u32_state(&rnd) % 4;
		ret = ret < ARRAY_SIZE(split_error_params) ?
			split_error_params[ret].val : 0;

		err = run_split(t, existing, children, ret);
		KUNIT_ASSERT_TRUE_MSG(test, outcome_is_model(t, err),
				      "case %u: %u existing, %u children, error %d",
				      i, existing, children, ret);
	}
}

/* A real THP */

struct thp {
	unsigned long addr;
	unsigned long nr;
	struct folio *folio;
	/* NR_ISOLATED_ANON before isolation; nothing else reclaims at boot. */
	long isolated;
};

/* node_page_state() lacks what has not been folded into it yet. */
static long nr_isolated_anon(struct pglist_data *pgdat)
{
	long nr = atomic_long_read(&pgdat->vm_stat[NR_ISOLATED_ANON]);

#ifdef CONFIG_SMP
	struct per_cpu_nodestat *stat;
	int cpu;

	for_each_possible_cpu(cpu) {
		stat = per_cpu_ptr(pgdat->per_cpu_nodestats, cpu);
		nr += stat->vm_node_stat_diff[NR_ISOLATED_ANON];
	}
#endif
	return nr;
}

static unsigned long __user *thp_page(struct thp *thp, unsigned long i)
{
	return (unsigned long __user *)(thp->addr + i * PAGE_SIZE);
}

/*
 * Map a THP, isolate and lock it. Its pages hold 1, 2, 3, ..., none of them
 * only zeroes, as the split would map the zero page in its place.
 */
static struct thp isolate_thp(struct kunit *test)
{
	struct vm_area_struct *vma;
	unsigned long size, i;
	struct page *page;
	bool isolated;
	struct thp thp;

	skip_without_thp(test);

	thp.nr = 1UL << pmd_order();
	size = thp.nr << PAGE_SHIFT;
	thp.addr = kunit_vm_mmap(test, NULL, 0, 2 * size,
				 PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, 0);
	KUNIT_ASSERT_NE(test, thp.addr, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(thp.addr));
	thp.addr = ALIGN(thp.addr, size);

	/* What madvise(MADV_HUGEPAGE) does, which may be configured out. */
	mmap_write_lock(current->mm);
	vma = vma_lookup(current->mm, thp.addr);
	if (vma)
		vm_flags_set(vma, VM_HUGEPAGE);
	mmap_write_unlock(current->mm);
	KUNIT_ASSERT_NOT_NULL(test, vma);

	for (i = 0; i < thp.nr; i++)
		KUNIT_ASSERT_EQ(test, put_user(i + 1, thp_page(&thp, i)), 0);

	KUNIT_ASSERT_EQ(test, get_user_pages_unlocked(thp.addr, 1, &page, 0),
			1);
	thp.folio = page_folio(page);
	if (folio_order(thp.folio) != pmd_order()) {
		folio_put(thp.folio);
		kunit_skip(test, "the page fault did not come up with a THP");
	}

	thp.isolated = nr_isolated_anon(folio_pgdat(thp.folio));
	lru_add_drain_all();
	isolated = folio_isolate_lru(thp.folio);
	/* Isolation has its own reference, and the split expects just one. */
	folio_put(thp.folio);
	KUNIT_ASSERT_TRUE(test, isolated);
	node_stat_add_folio(thp.folio, NR_ISOLATED_ANON);
	folio_lock(thp.folio);

	return thp;
}

static void putback(struct folio *folio)
{
	node_stat_sub_folio(folio, NR_ISOLATED_ANON);
	folio_putback_lru(folio);
}

static void putback_thp(struct thp *thp, struct list_head *children)
{
	struct folio *child, *next;

	list_for_each_entry_safe(child, next, children, lru) {
		list_del(&child->lru);
		/* Only a broken split has the head on the list. */
		if (child != thp->folio)
			putback(child);
	}
	folio_unlock(thp->folio);
	putback(thp->folio);
}

static void expect_thp_contents(struct kunit *test, struct thp *thp)
{
	unsigned long i, val;

	for (i = 0; i < thp->nr; i++) {
		KUNIT_ASSERT_EQ(test, get_user(val, thp_page(thp, i)), 0);
		KUNIT_ASSERT_EQ(test, val, i + 1);
	}
}

static void thp_is_met_in_physical_order(struct kunit *test)
{
	struct thp thp = isolate_thp(test);
	unsigned long pfn = folio_pfn(thp.folio);
	unsigned long met = 0, misplaced = 0;
	LIST_HEAD(children);
	LIST_HEAD(done);

	KUNIT_EXPECT_EQ(test, split_folio_for_swap(thp.folio, &children), 0);
	KUNIT_EXPECT_EQ(test, folio_pfn(thp.folio), pfn);

	while (!list_empty(&children)) {
		struct folio *child = lru_to_folio(&children);

		list_move(&child->lru, &done);
		met++;
		if (folio_pfn(child) != pfn + met)
			misplaced++;
	}
	KUNIT_EXPECT_EQ(test, met, thp.nr - 1);
	KUNIT_EXPECT_EQ(test, misplaced, 0);

	putback_thp(&thp, &done);
}

/* One reference of the page table, and one of the list or the caller. */
static bool is_split(struct folio *folio)
{
	return folio_order(folio) == 0 && folio_mapcount(folio) == 1 &&
	       folio_ref_count(folio) == 2;
}

static void thp_references_and_counters_balance(struct kunit *test)
{
	struct thp thp = isolate_thp(test);
	struct pglist_data *pgdat = folio_pgdat(thp.folio);
	unsigned long nr_split = 0;
	struct folio *child;
	LIST_HEAD(children);

	KUNIT_EXPECT_EQ(test, nr_isolated_anon(pgdat), thp.isolated + thp.nr);
	KUNIT_EXPECT_EQ(test, split_folio_for_swap(thp.folio, &children), 0);
	KUNIT_EXPECT_EQ(test, nr_isolated_anon(pgdat), thp.isolated + thp.nr);

	KUNIT_EXPECT_TRUE(test, is_split(thp.folio));
	KUNIT_EXPECT_TRUE(test, folio_test_locked(thp.folio));
	list_for_each_entry(child, &children, lru)
		nr_split += is_split(child) && !folio_test_locked(child);
	KUNIT_EXPECT_EQ(test, nr_split, thp.nr - 1);

	putback_thp(&thp, &children);
	KUNIT_EXPECT_EQ(test, nr_isolated_anon(pgdat), thp.isolated);
}

static void thp_contents_survive_split(struct kunit *test)
{
	struct thp thp = isolate_thp(test);
	LIST_HEAD(children);

	KUNIT_EXPECT_EQ(test, split_folio_for_swap(thp.folio, &children), 0);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&children), thp.nr - 1);
	putback_thp(&thp, &children);
	expect_thp_contents(test, &thp);
}

static void thp_with_extra_reference_stays_whole(struct kunit *test)
{
	struct thp thp = isolate_thp(test);
	struct pglist_data *pgdat = folio_pgdat(thp.folio);
	LIST_HEAD(existing);
	LIST_HEAD(children);
	LIST_HEAD(list);

	list_add_tail(&existing, &list);
	folio_get(thp.folio);
	KUNIT_EXPECT_EQ(test, split_folio_for_swap(thp.folio, &list), -EAGAIN);

	KUNIT_EXPECT_PTR_EQ(test, list.next, &existing);
	KUNIT_EXPECT_PTR_EQ(test, list.prev, &existing);
	KUNIT_EXPECT_PTR_EQ(test, existing.next, &list);
	KUNIT_EXPECT_EQ(test, folio_order(thp.folio), pmd_order());
	KUNIT_EXPECT_EQ(test, folio_ref_count(thp.folio),
			folio_mapcount(thp.folio) + 2);
	KUNIT_EXPECT_TRUE(test, folio_test_locked(thp.folio));

	folio_put(thp.folio);
	putback_thp(&thp, &children);
	KUNIT_EXPECT_EQ(test, nr_isolated_anon(pgdat), thp.isolated);
	expect_thp_contents(test, &thp);
}

static struct kunit_case split_order_cases[] = {
	KUNIT_CASE_PARAM(children_are_met_ascending, nr_children_gen_params),
	KUNIT_CASE_PARAM(head_stays_locked_and_off_the_list,
			 nr_children_gen_params),
	KUNIT_CASE_PARAM(existing_entries_keep_their_place,
			 nr_children_gen_params),
	KUNIT_CASE_PARAM(forward_and_backward_walks_agree,
			 nr_children_gen_params),
	KUNIT_CASE(file_folio_takes_plain_path),
	KUNIT_CASE(swap_cache_folio_takes_plain_path),
	KUNIT_CASE_PARAM(other_order_takes_plain_path, other_order_gen_params),
	KUNIT_CASE_PARAM(error_of_split_is_returned, split_error_gen_params),
	KUNIT_CASE_PARAM(failure_keeps_order_of_split, split_error_gen_params),
	KUNIT_CASE_PARAM(failure_leaves_private_list_empty,
			 split_error_gen_params),
	KUNIT_CASE(every_small_list_matches_model),
	KUNIT_CASE(random_lists_match_model),
	KUNIT_CASE(thp_is_met_in_physical_order),
	KUNIT_CASE(thp_references_and_counters_balance),
	KUNIT_CASE(thp_contents_survive_split),
	KUNIT_CASE(thp_with_extra_reference_stays_whole),
	{}
};

static struct kunit_suite split_order_suite = {
	.name = "vmscan_split_order",
	.test_cases = split_order_cases,
};

kunit_test_suite(split_order_suite);
