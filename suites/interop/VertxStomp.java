import io.vertx.core.Vertx;
import io.vertx.ext.stomp.*;
public class VertxStomp {
  public static void main(String[] a) {
    Vertx vertx = Vertx.vertx();
    StompServer.create(vertx, new StompServerOptions().setPort(Integer.parseInt(a[0])).setHost("127.0.0.1"))
      .handler(StompServerHandler.create(vertx)).listen().onComplete(r -> System.out.println(r.succeeded() ? "ready" : r.cause().toString()));
  }
}
