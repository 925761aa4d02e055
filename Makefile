# SPDX-License-Identifier: GPL-2.0
# The front door. The work is done by the tool in tools/; `make help` says what there is.

TARGETS   := kunit test lab lab-reference tree export export-check preflight clean help
VARIABLES := BUILD KDIR KREV BASE SERIES RUST ARCH LLVM RUSTC RUST_LIB_SRC LIBCLANG_PATH BINDGEN JOBS TIMEOUT WORKLOAD ROUNDS

# A misspelt variable would silently do the default.
given := $(foreach v,$(.VARIABLES),$(if $(findstring command line,$(origin $v)),$v))
wrong := $(filter-out $(VARIABLES) MAKE% -%,$(given))
ifneq ($(wrong),)
$(error unknown variable: $(wrong). Known: $(VARIABLES))
endif

TOOL = @tools/bootstrap

.PHONY: $(TARGETS)
help:
	@sed 1d tools/help.txt
kunit test lab lab-reference tree export preflight clean:
	$(TOOL) $@
export-check:
	$(TOOL) export --check

# Anything else.
.DEFAULT:
	@echo "make: unknown target '$@'. Known: $(TARGETS)" >&2; exit 2
