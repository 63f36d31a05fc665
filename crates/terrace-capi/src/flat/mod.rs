//! Plain functions for the C++ classes of `shim/`, all called `terrace_cxx_*`. None is visible outside of the library.
