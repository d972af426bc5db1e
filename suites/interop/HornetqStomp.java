import java.util.*;
import org.hornetq.api.core.TransportConfiguration;
import org.hornetq.core.config.impl.ConfigurationImpl;
import org.hornetq.core.server.HornetQServers;
public class HornetqStomp {
  public static void main(String[] a) throws Exception {
    ConfigurationImpl configuration = new ConfigurationImpl();
    configuration.setPersistenceEnabled(false);
    configuration.setSecurityEnabled(false);
    Map<String, Object> acceptor = new HashMap<>(Map.of("host", "127.0.0.1", "port", Integer.parseInt(a[0]), "protocols", "STOMP"));
    configuration.getAcceptorConfigurations().add(new TransportConfiguration("org.hornetq.core.remoting.impl.netty.NettyAcceptorFactory", acceptor));
    HornetQServers.newHornetQServer(configuration).start();
  }
}
