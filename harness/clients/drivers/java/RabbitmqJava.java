// The driver of RabbitMQ's Java client: see docs/reference/client-drivers.md.
import static java.util.Map.entry;

import com.rabbitmq.client.BlockedListener;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConfirmListener;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

final class RabbitmqJava {
    private record Delivered(Channel channel, long tag) {}

    private static Connection connection;
    private static final Map<Integer, Channel> channels = new ConcurrentHashMap<>();
    private static final List<Delivered> received = new ArrayList<>();
    private static final ExecutorService publisher = Executors.newSingleThreadExecutor(); // publishing blocks while a channel's flow is stopped

    private static void connect(DriverLines.Asked asked) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost(asked.text("host"));
        factory.setPort(asked.number("port"));
        factory.setVirtualHost(asked.text("vhost"));
        factory.setUsername(asked.text("login"));
        factory.setPassword(asked.text("passcode"));
        factory.setRequestedHeartbeat(asked.number("heartbeat"));
        factory.setAutomaticRecoveryEnabled(false);
        try {
            connection = factory.newConnection();
        } catch (Exception problem) {
            DriverLines.reportError(problem);
            DriverLines.report("disconnected");
            throw problem;
        }
        connection.addShutdownListener(cause -> {
            if (!cause.isInitiatedByApplication()) DriverLines.reportError(cause);
            DriverLines.report("disconnected");
        });
        connection.addBlockedListener(new BlockedListener() {
            @Override
            public void handleBlocked(String reason) {
                DriverLines.report("blocked");
            }

            @Override
            public void handleUnblocked() {
                DriverLines.report("unblocked");
            }
        });
        DriverLines.report("connected");
    }

    private static void open(int number) throws Exception {
        Channel channel = connection.createChannel();
        channels.put(number, channel);
        channel.addShutdownListener(cause -> DriverLines.report("channel-closed", "channel", number));
        channel.addConfirmListener(new ConfirmListener() {
            @Override
            public void handleAck(long tag, boolean multiple) {
                DriverLines.report("confirmed", "number", tag, "multiple", multiple, "ok", true);
            }

            @Override
            public void handleNack(long tag, boolean multiple) {
                DriverLines.report("confirmed", "number", tag, "multiple", multiple, "ok", false);
            }
        });
        DriverLines.report("channel-open", "channel", number);
    }

    private static void consume(Channel channel, String queue, boolean noAck) throws Exception {
        channel.basicConsume(queue, noAck, new DefaultConsumer(channel) {
            @Override
            public void handleDelivery(String tag, Envelope envelope, com.rabbitmq.client.AMQP.BasicProperties properties, byte[] body) {
                try {
                    DriverLines.reportMessage(Map.of("queue", queue), body, () -> received.add(new Delivered(channel, envelope.getDeliveryTag())));
                } catch (InterruptedException ended) {
                    Thread.currentThread().interrupt();
                }
            }

            @Override
            public void handleCancel(String tag) {
                DriverLines.report("cancelled", "queue", queue);
            }
        });
    }

    private static Channel channel(DriverLines.Asked asked) {
        return channels.get(asked.number("channel"));
    }

    private static void publish(DriverLines.Asked asked) {
        try {
            channel(asked).basicPublish("", asked.text("queue"), null, asked.content());
        } catch (Exception problem) {
            DriverLines.reportError(problem);
        }
    }

    private static void settle(DriverLines.Asked asked, boolean accepts) throws Exception {
        Delivered one;
        synchronized (DriverLines.class) {
            one = received.get(asked.number("message") - 1);
        }
        if (accepts) one.channel.basicAck(one.tag, asked.flag("multiple"));
        else one.channel.basicReject(one.tag, false);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, DriverLines.Action<DriverLines.Asked>> commands = Map.ofEntries(
                entry("connect", RabbitmqJava::connect),
                entry("channel", asked -> open(asked.number("channel"))),
                entry("consume", asked -> consume(channel(asked), asked.text("queue"), asked.flag("no_ack"))),
                entry("publish", asked -> publisher.execute(() -> publish(asked))),
                entry("ack", asked -> settle(asked, true)),
                entry("reject", asked -> settle(asked, false)),
                entry("confirm", asked -> channel(asked).confirmSelect()),
                entry("close_channel", asked -> DriverLines.beside(nothing -> channel(asked).close())),
                entry("disconnect", asked -> DriverLines.beside(nothing -> connection.close())));
        DriverLines.serve("RabbitMQ Java client", Connection.class, commands, "connect", "channel", "consume", "confirm");
    }
}
