/* Records the arrival time of each datagram at a UDP port of loopback, and the number of dropped ones. It does not know
 * their contents. The times are the kernel's, so they do not depend on when this program reads a datagram.
 *
 *   clocked_receiver PORT BUFFER_MIB FILE
 *
 * It prints "ready" when it listens. After the end of its standard input and of the datagrams, FILE contains the times in
 * nanoseconds as 64-bit integers, and it prints one line of JSON.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { BATCH = 64, BUFFER = 2048, CONTROL = 64 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

int main(int count, char **arguments) {
    if (count != 4) {
        fprintf(stderr, "usage: clocked_receiver PORT BUFFER_MIB FILE\n");
        return 2;
    }
    int one = 1, bytes = atoi(arguments[2]) << 20;
    int receiver = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (receiver < 0 || bind(receiver, (struct sockaddr *)&address, sizeof address)) fail("bind");
    /* The kernel doubles the size for its own overhead, as it does for a real receiver with 4 MiB. */
    if (setsockopt(receiver, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes)) fail("SO_RCVBUFFORCE");
    if (setsockopt(receiver, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one)) fail("SO_TIMESTAMPNS");
    struct timeval timeout = {.tv_usec = 100000};
    setsockopt(receiver, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    FILE *times = fopen(arguments[3], "wb");
    if (!times) fail(arguments[3]);

    static char buffers[BATCH][BUFFER], control[BATCH][CONTROL];
    static struct iovec vectors[BATCH];
    static struct mmsghdr messages[BATCH];
    for (int at = 0; at < BATCH; at++) {
        vectors[at] = (struct iovec){buffers[at], BUFFER};
        messages[at].msg_hdr = (struct msghdr){.msg_iov = &vectors[at], .msg_iovlen = 1, .msg_control = control[at]};
    }
    puts("ready");
    fflush(stdout);

    uint64_t datagrams = 0;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    for (;;) {
        for (int at = 0; at < BATCH; at++) messages[at].msg_hdr.msg_controllen = CONTROL;
        int received = recvmmsg(receiver, messages, BATCH, MSG_WAITFORONE, NULL);
        if (received <= 0) {
            if (poll(&input, 1, 0) > 0) break;
            continue;
        }
        for (int at = 0; at < received; at++) {
            struct cmsghdr *part = CMSG_FIRSTHDR(&messages[at].msg_hdr);
            if (!part || part->cmsg_type != SCM_TIMESTAMPNS) fail("a datagram without a timestamp");
            struct timespec arrival;
            memcpy(&arrival, CMSG_DATA(part), sizeof arrival);
            uint64_t nanoseconds = arrival.tv_sec * 1000000000ull + arrival.tv_nsec;
            if (fwrite(&nanoseconds, sizeof nanoseconds, 1, times) != 1) fail("write");
        }
        datagrams += received;
    }
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof memory;
    if (getsockopt(receiver, SOL_SOCKET, SO_MEMINFO, memory, &length)) fail("SO_MEMINFO");
    if (fclose(times)) fail("close");
    printf("{\"datagrams\": %lu, \"drops\": %u}\n", datagrams, memory[SK_MEMINFO_DROPS]);
    return 0;
}
