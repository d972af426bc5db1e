// Waits two seconds in each way that a broker on Java waits, and prints what its own clock says of each: "NAME MILLISECONDS".

import java.net.ServerSocket;
import java.net.SocketTimeoutException;
import java.nio.channels.Selector;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

public class ClockWaits {
  static final long WAIT_MS = 2000;

  interface Wait {
    void run() throws Exception;
  }

  static void measure(String name, Wait wait) throws Exception {
    System.out.println("begin " + name);
    long began = System.nanoTime();
    wait.run();
    System.out.println("end " + name + " " + (System.nanoTime() - began) / 1_000_000);
  }

  public static void main(String[] arguments) throws Exception {
    measure("Thread.sleep", () -> Thread.sleep(WAIT_MS));
    measure("LockSupport.parkNanos", () -> LockSupport.parkNanos(WAIT_MS * 1_000_000));
    Object monitor = new Object();
    measure(
        "Object.wait",
        () -> {
          synchronized (monitor) {
            monitor.wait(WAIT_MS);
          }
        });
    measure("CountDownLatch.await", () -> new CountDownLatch(1).await(WAIT_MS, TimeUnit.MILLISECONDS));
    var executor = Executors.newScheduledThreadPool(1);
    measure("ScheduledExecutorService", () -> executor.schedule(() -> {}, WAIT_MS, TimeUnit.MILLISECONDS).get());
    executor.shutdownNow();
    measure(
        "java.util.Timer",
        () -> {
          CountDownLatch done = new CountDownLatch(1);
          Timer timer = new Timer(true);
          timer.schedule(
              new TimerTask() {
                public void run() {
                  done.countDown();
                }
              },
              WAIT_MS);
          done.await();
        });
    try (Selector selector = Selector.open()) {
      measure("Selector.select", () -> selector.select(WAIT_MS));
    }
    try (ServerSocket socket = new ServerSocket(0)) {
      socket.setSoTimeout((int) WAIT_MS);
      measure(
          "ServerSocket.accept",
          () -> {
            try {
              socket.accept();
            } catch (SocketTimeoutException expected) {
            }
          });
    }
    long millis = System.currentTimeMillis();
    measure("System.currentTimeMillis", () -> {
      while (System.currentTimeMillis() - millis < WAIT_MS) {
        Thread.sleep(10);
      }
    });
  }
}
