// A check for the C++ tests: prints what failed and ends the process with 1.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                              \
        }                                                                              \
    } while (false)

#define CHECK_OK(expression)                                                              \
    do {                                                                                  \
        const ::ascend_ops::Result check_result = (expression);                           \
        if (!check_result.ok()) {                                                         \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, check_result.text().c_str()); \
            std::exit(1);                                                                 \
        }                                                                                 \
    } while (false)
