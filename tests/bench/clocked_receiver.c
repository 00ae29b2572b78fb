/* Writes down when each datagram reached a UDP port of loopback, by the kernel's own clock, and how many were dropped.
 * It knows nothing of what they hold. The moment is that of the arrival, however late this program takes it.
 *
 *   clocked_receiver PORT BUFFER_MIB FILE
 *
 * It prints "ready" once it listens. When its standard input ends and nothing more comes, FILE holds the moments as
 * 64-bit numbers of nanoseconds, and one line of JSON is printed.
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

enum { AT_ONCE = 64, ROOM = 2048, CONTROL = 64 };

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
    int taker = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (taker < 0 || bind(taker, (struct sockaddr *)&address, sizeof address)) fail("bind");
    /* The kernel doubles the figure for its own overhead, as it does for a receiver that asks for 4 MiB. */
    if (setsockopt(taker, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes)) fail("SO_RCVBUFFORCE");
    if (setsockopt(taker, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one)) fail("SO_TIMESTAMPNS");
    struct timeval patience = {.tv_usec = 100000};
    setsockopt(taker, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    FILE *moments = fopen(arguments[3], "wb");
    if (!moments) fail(arguments[3]);

    static char room[AT_ONCE][ROOM], control[AT_ONCE][CONTROL];
    static struct iovec places[AT_ONCE];
    static struct mmsghdr messages[AT_ONCE];
    for (int at = 0; at < AT_ONCE; at++) {
        places[at] = (struct iovec){room[at], ROOM};
        messages[at].msg_hdr = (struct msghdr){.msg_iov = &places[at], .msg_iovlen = 1, .msg_control = control[at]};
    }
    puts("ready");
    fflush(stdout);

    uint64_t datagrams = 0;
    struct pollfd told = {.fd = 0, .events = POLLIN};
    for (;;) {
        for (int at = 0; at < AT_ONCE; at++) messages[at].msg_hdr.msg_controllen = CONTROL;
        int taken = recvmmsg(taker, messages, AT_ONCE, MSG_WAITFORONE, NULL);
        if (taken <= 0) {
            if (poll(&told, 1, 0) > 0) break;
            continue;
        }
        for (int at = 0; at < taken; at++) {
            struct cmsghdr *part = CMSG_FIRSTHDR(&messages[at].msg_hdr);
            if (!part || part->cmsg_type != SCM_TIMESTAMPNS) fail("a datagram without a moment");
            struct timespec moment;
            memcpy(&moment, CMSG_DATA(part), sizeof moment);
            uint64_t nanoseconds = moment.tv_sec * 1000000000ull + moment.tv_nsec;
            if (fwrite(&nanoseconds, sizeof nanoseconds, 1, moments) != 1) fail("write");
        }
        datagrams += taken;
    }
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof memory;
    if (getsockopt(taker, SOL_SOCKET, SO_MEMINFO, memory, &length)) fail("SO_MEMINFO");
    if (fclose(moments)) fail("close");
    printf("{\"datagrams\": %lu, \"drops\": %u}\n", datagrams, memory[SK_MEMINFO_DROPS]);
    return 0;
}
