/* Counts the datagrams that arrive at a UDP port of loopback, and those that the kernel had to drop before we took them.
 * It knows nothing of what they hold. It must not drop any itself: so it has a large buffer and takes many in one call.
 *
 *   receiver PORT BUFFER_MIB GRO
 *
 * It prints "ready" once it listens, and when its standard input ends and nothing more comes, one line of JSON. With
 * GRO 1 the kernel hands over what was sent in one call without cutting it apart, which spares the sender that work;
 * 0 is what a network card without help from its hardware costs the sender.
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

enum { AT_ONCE = 128, ROOM = 65536 };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* How many datagrams stand in a buffer of `length` bytes that the kernel put together. */
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
    int taker = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (taker < 0 || bind(taker, (struct sockaddr *)&address, sizeof address)) fail("bind");
    if (setsockopt(taker, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes)) fail("SO_RCVBUFFORCE");
    if (atoi(arguments[3]) && setsockopt(taker, IPPROTO_UDP, UDP_GRO, &one, sizeof one)) fail("UDP_GRO");
    struct timeval patience = {.tv_usec = 100000};
    setsockopt(taker, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);

    static char room[AT_ONCE][ROOM], control[AT_ONCE][64];
    static struct iovec places[AT_ONCE];
    static struct mmsghdr messages[AT_ONCE];
    for (int at = 0; at < AT_ONCE; at++) {
        places[at] = (struct iovec){room[at], ROOM};
        messages[at].msg_hdr = (struct msghdr){.msg_iov = &places[at], .msg_iovlen = 1, .msg_control = control[at]};
    }
    puts("ready");
    fflush(stdout);

    uint64_t datagrams = 0, payload = 0;
    double first = 0, last = 0;
    struct pollfd told = {.fd = 0, .events = POLLIN};
    for (;;) {
        for (int at = 0; at < AT_ONCE; at++) messages[at].msg_hdr.msg_controllen = sizeof control[at];
        int taken = recvmmsg(taker, messages, AT_ONCE, MSG_WAITFORONE, NULL);
        if (taken <= 0) {
            if (poll(&told, 1, 0) > 0) break;
            continue;
        }
        last = seconds();
        if (!datagrams) first = last;
        for (int at = 0; at < taken; at++) {
            payload += messages[at].msg_len;
            datagrams += datagrams_in(&messages[at].msg_hdr, messages[at].msg_len);
        }
    }
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof memory;
    if (getsockopt(taker, SOL_SOCKET, SO_MEMINFO, memory, &length)) fail("SO_MEMINFO");
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("{\"datagrams\": %lu, \"payload_bytes\": %lu, \"drops\": %u, \"seconds\": %.4f, \"cpu_seconds\": %.4f}\n",
           datagrams, payload, memory[SK_MEMINFO_DROPS], last - first,
           used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    return 0;
}
