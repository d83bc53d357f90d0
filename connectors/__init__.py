"""Sources and sinks, one module or package for each system; look-up tables; and `shared`, what several of them use."""
