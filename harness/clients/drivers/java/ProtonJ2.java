// The driver of ProtonJ2's client: see docs/reference/client-drivers.md.
import static java.util.Map.entry;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.qpid.protonj2.client.Client;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.DeliveryMode;
import org.apache.qpid.protonj2.client.DeliveryState;
import org.apache.qpid.protonj2.client.Link;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.SenderOptions;
import org.apache.qpid.protonj2.client.Tracker;

final class ProtonJ2 {
    private static Connection connection;
    private static final Map<String, Link<?>> links = new ConcurrentHashMap<>();
    private static final Map<String, BlockingQueue<byte[]>> queues = new ConcurrentHashMap<>();
    private static final List<Delivery> received = new ArrayList<>();
    private static int posted;

    private static void connect(DriverLines.Asked asked) throws Exception {
        ConnectionOptions options = new ConnectionOptions()
                .user(asked.text("login"))
                .password(asked.text("passcode"))
                .idleTimeout(asked.number("idle_ms"))
                .reconnectEnabled(false)
                .disconnectedHandler((lost, event) -> {
                    DriverLines.reportError(event.failureCause());
                    DriverLines.report("disconnected");
                });
        options.saslOptions().addAllowedMechanism("PLAIN");
        if (asked.number("max_frame") > 0) options.maxFrameSize(asked.number("max_frame"));
        connection = Client.create().connect(asked.text("host"), asked.number("port"), options);
        connection.openFuture().get();
        DriverLines.report("connected");
    }

    private static void opened(Link<?> link, String name) throws Exception {
        links.put(name, link);
        link.openFuture().get();
        DriverLines.report("link-open", "link", name);
    }

    // A sender waits for credit within send.
    private static void post(Sender sender, BlockingQueue<byte[]> queue) throws Exception {
        while (true) {
            Tracker tracker = sender.send(Message.create(queue.take()));
            int number = ++posted;
            DriverLines.beside(nothing -> {
                DeliveryState state = tracker.settlementFuture().get().remoteState();
                DriverLines.report("settled", "number", number, "outcome", state == null ? "none" : state.getType().name().toLowerCase());
            });
        }
    }

    private static void sender(DriverLines.Asked asked) throws Exception {
        BlockingQueue<byte[]> queue = new LinkedBlockingQueue<>();
        DeliveryMode mode = asked.text("mode").equals("settled") ? DeliveryMode.AT_MOST_ONCE : DeliveryMode.AT_LEAST_ONCE;
        SenderOptions options = new SenderOptions().linkName(asked.text("link")).deliveryMode(mode);
        queues.put(asked.text("link"), queue);
        Sender sender = connection.openSender(asked.text("address"), options);
        DriverLines.beside(nothing -> {
            opened(sender, asked.text("link"));
            post(sender, queue);
        });
    }

    private static void receiver(DriverLines.Asked asked) throws Exception {
        String name = asked.text("link");
        ReceiverOptions options = new ReceiverOptions().linkName(name).creditWindow(asked.number("credit")).autoAccept(false);
        Receiver receiver = connection.openReceiver(asked.text("address"), options);
        DriverLines.beside(nothing -> {
            opened(receiver, name);
            try {
                while (true) {
                    Delivery delivery = receiver.receive();
                    byte[] body = delivery.<byte[]>message().body();
                    DriverLines.reportMessage(Map.of("link", name), body, () -> received.add(delivery));
                }
            } finally {
                DriverLines.report("link-closed", "link", name);
            }
        });
    }

    private static void settle(DriverLines.Asked asked) throws Exception {
        Delivery one;
        synchronized (DriverLines.class) {
            one = received.get(asked.number("message") - 1);
        }
        switch (asked.text("outcome")) {
            case "accepted" -> one.accept();
            case "rejected" -> one.reject("amqp:internal-error", "refused");
            case "released" -> one.release();
            default -> one.modified(true, false);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, DriverLines.Action<DriverLines.Asked>> commands = Map.ofEntries(
                entry("connect", ProtonJ2::connect),
                entry("sender", ProtonJ2::sender),
                entry("receiver", ProtonJ2::receiver),
                entry("send", asked -> queues.get(asked.text("link")).add(asked.content())),
                entry("settle", ProtonJ2::settle),
                entry("close_link", asked -> links.get(asked.text("link")).closeAsync()),
                entry("disconnect", asked -> connection.closeAsync()));
        DriverLines.serve("ProtonJ2", Client.class, commands, "connect");
    }
}
