/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __MM_VMSCAN_POLICY_H
#define __MM_VMSCAN_POLICY_H

/*
 * Where mm/vmscan.c, mm/vmscan_policy.rs and their tests meet. What is only
 * there for tests is static in mm/vmscan.c without KUnit.
 */

#include <linux/mmzone.h>
#include <linux/types.h>

struct folio;
struct list_head;

/* Defined with CONFIG_VMSCAN_RUST. */
int split_folio_for_swap_rust(struct folio *folio, struct list_head *folio_list,
			      unsigned int pmd_order);
bool inactive_is_low_rust(unsigned long refaults, unsigned long snapshot,
			  unsigned long inactive, unsigned long active);

#if IS_ENABLED(CONFIG_KUNIT) || IS_ENABLED(CONFIG_VMSCAN_RUST)
#define VISIBLE_IF_VMSCAN_RUST
int __split_folio_for_swap(struct folio *folio, struct list_head *list);
#else
#define VISIBLE_IF_VMSCAN_RUST static
#endif

#if IS_ENABLED(CONFIG_KUNIT)
int split_folio_for_swap(struct folio *folio, struct list_head *folio_list);
int split_folio_for_swap_c(struct folio *folio, struct list_head *folio_list);

bool inactive_is_low(unsigned long refaults, unsigned long snapshot,
		     unsigned long inactive, unsigned long active);
bool inactive_is_low_c(unsigned long refaults, unsigned long snapshot,
		       unsigned long inactive, unsigned long active);
bool inactive_list_is_low(struct lruvec *lruvec, enum lru_list inactive_lru,
			  bool refault_aware);
unsigned long inactive_list_state(struct lruvec *lruvec,
				  enum node_stat_item item);
#endif

#endif /* __MM_VMSCAN_POLICY_H */
