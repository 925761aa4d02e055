/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __MM_TESTS_VMSCAN_KUNIT_H
#define __MM_TESTS_VMSCAN_KUNIT_H

/* What the KUnit suites of the reclaim policies share. */

#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/prandom.h>

/* Any will do, but a failure has to come back. */
#define SEED 20190619

/* HPAGE_PMD_ORDER does not compile without THP. */
static inline unsigned int pmd_order(void)
{
	if (!IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE))
		return 9;

	return HPAGE_PMD_ORDER;
}

static inline void skip_without_thp(struct kunit *test)
{
	if (!IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE))
		kunit_skip(test, "needs CONFIG_TRANSPARENT_HUGEPAGE");
}

static inline void free_head(void *head)
{
	struct folio *folio = head;

	/* Freeing would account the first and complain about the others. */
	folio->mapping = NULL;
	folio_clear_swapcache(folio);
	folio_clear_swapbacked(folio);
	if (folio_test_locked(folio))
		folio_unlock(folio);
	folio_put(folio);
}

/* A locked folio that looks anonymous, for the time of the test. */
static inline struct folio *alloc_head(struct kunit *test, unsigned int order)
{
	struct folio *folio;

	folio = folio_alloc(GFP_KERNEL | __GFP_NOWARN, order);
	if (!folio)
		kunit_skip(test, "no memory for a folio of order %u", order);

	folio_lock(folio);
	folio_set_swapbacked(folio);
	folio->mapping = (void *)FOLIO_MAPPING_ANON;
	/* As list_del() leaves it when reclaim takes the folio off its list. */
	folio->lru.next = LIST_POISON1;
	folio->lru.prev = LIST_POISON2;

	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, free_head, folio));
	return folio;
}

/* All magnitudes are equally likely. */
static inline unsigned long random_ulong(struct rnd_state *rnd)
{
	u64 val = prandom_u32_state(rnd);

	val = val << 32 | prandom_u32_state(rnd);
	return (unsigned long)val >> prandom_u32_state(rnd) % BITS_PER_LONG;
}

#endif /* __MM_TESTS_VMSCAN_KUNIT_H */
