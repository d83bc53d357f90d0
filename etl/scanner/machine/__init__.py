"""Machine code for an automaton whose states are known: its tables → LLVM's language → code of this CPU."""
