"""Patterns as tagged automata: from characters to states, registers and tables of transitions."""
