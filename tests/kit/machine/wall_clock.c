/* Owns a wall clock that jumps while a program runs. The preloaded library adds the seconds in the file named by
 * GAPLESS_TEST_CLOCK (8 bytes, native byte order) to the wall clock, and does not change the monotonic clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *jump;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("GAPLESS_TEST_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *found = mmap(NULL, sizeof *jump, PROT_READ, MAP_SHARED, file, 0);
  if (found != MAP_FAILED) jump = found;
  close(file);
}

static time_t ahead(void) { return jump ? (time_t)*jump : 0; }

int clock_gettime(clockid_t clock, struct timespec *answer) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, answer);
  if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) answer->tv_sec += ahead();
  return result;
}

int gettimeofday(struct timeval *restrict answer, void *restrict zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  answer->tv_sec = now.tv_sec;
  answer->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *answer) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (answer) *answer = now.tv_sec;
  return now.tv_sec;
}

int timespec_get(struct timespec *answer, int base) {
  return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, answer) ? base : 0;
}

/* The kernel's clock does not jump, so the jump is subtracted from a wall-clock deadline. A monotonic deadline is a
 * small number, because the machine has not been running for thirty years. */
int pthread_cond_timedwait(pthread_cond_t *restrict waited, pthread_mutex_t *restrict held,
                           const struct timespec *restrict deadline) {
  struct timespec real = *deadline;
  if (real.tv_sec < 1000000000) return pthread_cond_clockwait(waited, held, CLOCK_MONOTONIC, &real);
  real.tv_sec -= ahead();
  return pthread_cond_clockwait(waited, held, CLOCK_REALTIME, &real);
}

/* The C library's own threads, which Kafka's client uses, wait until a wall-clock time only. */
int cnd_timedwait(cnd_t *restrict waited, mtx_t *restrict held, const struct timespec *restrict deadline) {
  static int (*real)(cnd_t *, mtx_t *, const struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "cnd_timedwait");
  struct timespec until = *deadline;
  until.tv_sec -= ahead();
  return real(waited, held, &until);
}
