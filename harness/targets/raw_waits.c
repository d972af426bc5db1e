/*
 * Waits that libfaketime 0.9.10 leaves at the host's rate, for a process whose clock is
 * accelerated: timers behind a file descriptor (Netty, the BEAM) and futexes that are waited for
 * without the C library's own functions (the BEAM). Relative waits are divided by
 * BROKERPROOF_CLOCK_RATE.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#define NS_PER_S 1000000000LL

static struct timespec on_host(const struct timespec *span)
{
    const char *text = getenv("BROKERPROOF_CLOCK_RATE");
    long long rate = text ? atoll(text) : 1;
    long long ns = span->tv_sec * NS_PER_S + span->tv_nsec;
    /* Zero would disarm a timer, so what was positive stays positive. */
    long long shorter = ns > 0 && ns < rate ? 1 : ns / rate;
    return (struct timespec){shorter / NS_PER_S, shorter % NS_PER_S};
}

int timerfd_settime(int fd, int flags, const struct itimerspec *timer, struct itimerspec *former)
{
    static int (*original)(int, int, const struct itimerspec *, struct itimerspec *);
    if (!original)
        original = dlsym(RTLD_NEXT, "timerfd_settime");
    if (!timer || flags & TFD_TIMER_ABSTIME)
        return original(fd, flags, timer, former);
    struct itimerspec faster = {on_host(&timer->it_interval), on_host(&timer->it_value)};
    return original(fd, flags, &faster, former);
}

long syscall(long number, ...)
{
    static long (*original)(long, ...);
    if (!original)
        original = dlsym(RTLD_NEXT, "syscall");
    long arguments[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    struct timespec faster;
    /* FUTEX_WAIT_BITSET, the other wait with a limit, has an instant and no duration. */
    if (number == SYS_futex && (arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && arguments[3]) {
        faster = on_host((const struct timespec *)arguments[3]);
        arguments[3] = (long)&faster;
    }
    return original(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                    arguments[5]);
}
