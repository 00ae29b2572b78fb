/* Counts the datagrams that arrive at a UDP port of loopback, and those that the kernel dropped. It does not know their
 * contents. To cause no drops itself, it has a large buffer and reads many datagrams per call.
 *
 *   receiver PORT BUFFER_MIB GRO
 *
 * It prints "ready" when it listens and, after the end of its standard input and of the datagrams, one line of JSON. With
 * GRO 1 the kernel passes on the datagrams of one sending call without splitting them, which saves the sender that work;
 * GRO 0 has the cost of a network card without segmentation offload.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum { BATCH = 128, BUFFER = 65536 };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Returns the number of datagrams in a buffer of `length` bytes that the kernel coalesced. */
static uint64_t datagrams_in(struct msghdr *message, uint64_t length) {
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part))
        if (part->cmsg_level == IPPROTO_UDP && part->cmsg_type == UDP_GRO) {
            int size;
            memcpy(&size, CMSG_DATA(part), sizeof size);
            return (length + size - 1) / size;
        }
    return 1;
}

int main(int count, char **arguments) {
    if (count != 4) {
        fprintf(stderr, "usage: receiver PORT BUFFER_MIB GRO\n");
        return 2;
    }
    int one = 1, bytes = atoi(arguments[2]) << 20;
    int receiver = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (receiver < 0 || bind(receiver, (struct sockaddr *)&address, sizeof address)) fail("bind");
    if (setsockopt(receiver, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes)) fail("SO_RCVBUFFORCE");
    if (atoi(arguments[3]) && setsockopt(receiver, IPPROTO_UDP, UDP_GRO, &one, sizeof one)) fail("UDP_GRO");
    struct timeval timeout = {.tv_usec = 100000};
    setsockopt(receiver, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);

    static char buffers[BATCH][BUFFER], control[BATCH][64];
    static struct iovec vectors[BATCH];
    static struct mmsghdr messages[BATCH];
    for (int at = 0; at < BATCH; at++) {
        vectors[at] = (struct iovec){buffers[at], BUFFER};
        messages[at].msg_hdr = (struct msghdr){.msg_iov = &vectors[at], .msg_iovlen = 1, .msg_control = control[at]};
    }
    puts("ready");
    fflush(stdout);

    uint64_t datagrams = 0, payload = 0;
    double first = 0, last = 0;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    for (;;) {
        for (int at = 0; at < BATCH; at++) messages[at].msg_hdr.msg_controllen = sizeof control[at];
        int received = recvmmsg(receiver, messages, BATCH, MSG_WAITFORONE, NULL);
        if (received <= 0) {
            if (poll(&input, 1, 0) > 0) break;
            continue;
        }
        last = seconds();
        if (!datagrams) first = last;
        for (int at = 0; at < received; at++) {
            payload += messages[at].msg_len;
            datagrams += datagrams_in(&messages[at].msg_hdr, messages[at].msg_len);
        }
    }
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof memory;
    if (getsockopt(receiver, SOL_SOCKET, SO_MEMINFO, memory, &length)) fail("SO_MEMINFO");
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("{\"datagrams\": %lu, \"payload_bytes\": %lu, \"drops\": %u, \"seconds\": %.4f, \"cpu_seconds\": %.4f}\n",
           datagrams, payload, memory[SK_MEMINFO_DROPS], last - first,
           used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    return 0;
}
