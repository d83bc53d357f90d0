"""Code generation: an automaton's transition tables → LLVM IR → machine code of this CPU."""
